"""`sequencer demo`: made-up orders, a consumer killed half-way, a verdict.

Not here: commands for queues of your own (`cli`).
The rule: it needs no server, and leaves nothing behind.
"""
