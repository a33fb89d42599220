"""What can be done with a queue besides consuming it: append, inspect, operate; groups that stand still (`groups`),
dead letters, steps, history, alerts; what one client knows of its queue (`session`), and what is registered of it
(`registry`).

Not here: the consumer's protocol (`drain`).
The rule: an operation is written once. To append one message is none, for its speed: `net/appender.py`.
"""
