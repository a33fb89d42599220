"""Redis and nothing else: connections, how calls go over them, errors of the driver as ours. Also the short way to
append (`appender`).

Not here: what a call holds (`calls`).
The rule: only this room imports redis; `testing` and the benchmarks may too.
"""
