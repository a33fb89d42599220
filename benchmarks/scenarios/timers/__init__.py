"""Scenario `timers`: timers beside key-expiry events.

Its options are in `command`, its runs in `trials`.

Not here: what it shares with others (`kit`, `load`).
The rule: see `scenarios`.
"""
