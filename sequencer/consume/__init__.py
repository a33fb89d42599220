"""The shell of one consumer: two threads, the handler, interruption and events.

Not here: decisions (`drain`), processes (`processes`).
The rule: only this room runs handlers; so does `testing.MemoryQueue`.
"""
