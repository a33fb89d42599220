"""Judges of histories: order, exclusion, loss, duplicates.

Not here: running anything.
The rule: a judge knows only the history.
"""
