"""A supervisor and its consumer processes; what they run (`handlers`), many pools of one file (`master`), alarms, logs.

Not here: what one consumer does (`consume`).
The rule: only this room starts processes; `server`, `testing`, the demo and the benchmarks may too.
"""
