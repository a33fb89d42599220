"""An executable model of the steps of a message: a pass and its ledger.

It shares no code with the product. `passes.next_action` and `rules` say what a pass does; `controls` has each rule
taken out. `cases` has one pass as plain data: the product is compared with it. What passes do together is judged by
`simulate --steps`, over the product, and by steps.pml.
"""
