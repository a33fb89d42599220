"""Alerts of `sequencer run` and `sequencer watch`: what people are told, and how it gets to them.

Not here: what holds in a queue (`queue/alerts/conditions.py`), and who may tell it (`lua/alert.lua`). Of a server that
is away it is decided here (`server_away`).
The rule: no body of a message is told, and no URL or secret of a target is shown, logged or kept.
"""
