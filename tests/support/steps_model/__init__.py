"""An executable model of the steps of a message: a pass, its ledger, and a lane that keeps it.

It shares no code with the product. `passes.next_action` and `rules` say what a pass does; `lane`, `consumer` and `walk`
are the world around it, and `truth` judges a walk. `twins` has each rule taken out. `cases` has one pass as plain data:
an implementation is compared with it.
"""
