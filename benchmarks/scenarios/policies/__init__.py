"""Scenario `policies`: what each policy costs.

Its options are in `command`, its runs in `trials`.

Not here: what it shares with others (`kit`, `load`).
The rule: see `scenarios`.
"""
