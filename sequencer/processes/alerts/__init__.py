"""Alerts of `sequencer run` and `sequencer watch`: what is sent, and how.

Not here: what holds in a queue (`queue/alerts/conditions.py`), and who may send it (`lua/alert.lua`). Of a server that
is away it is decided here (`server_away`).
The rule: no body of a message is sent, and no URL or secret of a target is shown, logged or kept.
"""
