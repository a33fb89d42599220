"""Groups: listed by state, and what lets one or many that stand still go on.

In it: pages and lists of groups (listed); what lets one go on from its head, and puts back what was skipped (head); the
same for all that are meant (many).
Not here: the pause of one group or of a queue (`operate`).
The rule: names are read first, and a run acts on those only; a group that is not as it was seen is left alone.
"""
