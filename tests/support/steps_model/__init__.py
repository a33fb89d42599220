"""An executable model of the steps of a message: a pass, its ledger, and a shard that keeps it.

It shares no code with the product. `passes.next_action` and `rules` say what a pass does; `shard`, `consumer` and
`walk`
are the world around it, and `truth` judges a walk. `controls` has each rule taken out. `cases` has one pass as plain
data:
an implementation is compared with it.
"""
