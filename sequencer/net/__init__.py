"""Redis and nothing else: connections, what is sent on them, and errors of the driver as ours.

Not here: what is sent (`calls`).
The rule: only this room imports redis; `testing` and the benchmarks may too.
"""
