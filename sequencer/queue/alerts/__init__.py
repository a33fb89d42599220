"""Alerts of a queue: which conditions hold, who may send them, and what was sent. Operations over a net.

Not here: who checks and how often, and who sends (`processes/alerts/`).
The rule: what holds is sent, whichever process died; it is marked as sent only after a target accepted the message.
"""
