"""What a consumer process runs for each message: an application's function, a command, or print mode.

Not here: when it runs (`consume`).
The rule: a handler knows one message and nothing of its queue.
"""
