"""One consumer process, as the supervisor starts it: its configuration, its control thread, its end.

Not here: when it is started or replaced (`processes.pool`, `processes.places`).
The rule: the control thread runs no user code.
"""
