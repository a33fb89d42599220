"""What became of messages that ended: found, listed, dropped in time. Operations over a net.

Not here: how an end is written (`drain`, `lua/parts/history`), and its bytes (`store/ending.py`).
The rule: history is read in slices of about 1,000 messages, so that the server is never blocked.
"""
