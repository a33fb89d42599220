"""Scenario `floor`: the server's processor time of a message, beside the least that can do it.

Its options are in `command`, its runs in `trials`.

Not here: what it shares with others (`kit`, `load`).
The rule: see `scenarios`.
"""
