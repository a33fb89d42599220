"""Dead letters: list them, count them, put them back into their places, delete them. Operations over a net.

Not here: how a message becomes one (`lua/parts/set_aside.lua`), and its record (`store/record.py`).
The rule: each page is put back or deleted by one call, which does nothing twice.
"""
