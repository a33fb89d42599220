"""Alerts of a queue: which conditions hold, who may tell of them, and what was told. Operations over a net.

Not here: who looks and how often, and who sends (`processes/alerts/`).
The rule: what holds is told, whoever died; it is marked as told only after somebody took the message.
"""
