"""Groups that stand still: one or many that are parked behind a failure, and many that are paused.

In it: what lets one go on (head); all that are parked (parked), which of them are meant (choice), what lets those go on
(many); what puts back a skipped message (unskip).
Not here: the pause of one group or of a queue (`operate`).
The rule: names are read first, and a run acts on those only; a group that is not as it was seen is left alone.
"""
