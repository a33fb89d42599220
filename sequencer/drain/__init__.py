"""The protocol of one consumer: what to claim, handle, acknowledge and wait for. Pure.

Not here: threads, sockets and clocks (`consume`).
The rule: the next message of a group begins only after the handler of the one before succeeded.
"""
