"""Scenario `growth`: rates with a large backlog and many groups.

Its options are in `command`, its runs in `trials`.

Not here: what it shares with others (`kit`, `load`).
The rule: see `scenarios`.
"""
