"""A supervisor and its consumer processes; what one is (`worker`), what it runs (`handlers`), many pools of one file
(`master`), alerts, logs.

Not here: what one consumer does (`consume`).
The rule: only this room starts processes; `server`, `testing`, the demo and the benchmarks may too.
"""
