"""The work of a scenario: which messages there are, the processes that append and handle them, and their history.

Not here: what comes of it (`kit`, `scenarios`).
The rule: start-up is never measured, and no process outlives its run.
"""
