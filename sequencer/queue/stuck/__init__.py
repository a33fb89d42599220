"""Groups that stand still, many at once: those that are parked behind a failure, and those that are paused.

In it: all that are parked (parked), which of them are meant (choice), what lets those go on (many), what puts back
a skipped message (unskip), and what brings the scores of messages that wait to one unit (rescore).
Not here: one group (`operate`).
The rule: names are read first, and a run acts on those only; a group that is not as it was seen is left alone.
"""
