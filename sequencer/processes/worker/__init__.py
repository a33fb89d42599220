"""One consumer process, as the supervisor starts it: its configuration, its watcher, its end.

Not here: when it is started or replaced (`processes.supervisor`).
The rule: the watcher's thread runs no user code."""
