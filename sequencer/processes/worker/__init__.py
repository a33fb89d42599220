"""One consumer process, as the supervisor starts it: its configuration, its control thread, its end.

Not here: when it is started or replaced (`processes.supervisor`).
The rule: the control thread runs no user code.
"""
