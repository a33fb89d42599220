"""What a consumer process runs for each message: an application's function, a command, or print mode.

Not here: when it runs (`consume`).
The rule: a handler gets one message, and asks nothing of its queue.
"""
