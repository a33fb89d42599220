"""An executable model of the steps of a message: a pass and its ledger.

It shares no code with the product. `passes.next_action` and `rules` say what a pass does; `shard` (the model of the
scripts), `consumer` and `walk` are the world around it, and `truth` judges a walk. `controls` has each rule taken out.
`cases` has one pass as plain data: an implementation is compared with it.
"""
