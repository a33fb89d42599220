"""Groups that stand still: those that are parked behind a failure, and those that are paused.

In it: what lets one go on (one); all that are parked (parked), which of them are meant (choice), what lets those go on
(many); and what puts back a skipped message (unskip).
Not here: pauses (`operate`).
The rule: names are read first, and a run acts on those only; a group that is not as it was seen is left alone.
"""
