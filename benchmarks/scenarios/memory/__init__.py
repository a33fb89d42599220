"""Scenario `memory`: what a pending message, a group and each key cost.

Its options are in `command`, its runs in `trials`.

Not here: what it shares with others (`kit`, `load`).
The rule: see `scenarios`.
"""
