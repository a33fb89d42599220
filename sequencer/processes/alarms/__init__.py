"""Alarms of `sequencer run` and `sequencer watch`: what people are told, and how it gets to them.

Not here: what holds in a queue, and who may tell it; the server decides that.
The rule: no body of a message is told, and no URL or secret of a target is shown, logged or kept.
"""
