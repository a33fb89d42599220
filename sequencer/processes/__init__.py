"""A supervisor and its consumer processes.

Not here: what one consumer does (`consume`).
The rule: only this room starts processes; `server`, `testing`, the demo and the benchmarks may too.
"""
