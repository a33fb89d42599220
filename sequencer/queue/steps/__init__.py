"""The steps of a message, and what an operator says of them. Operations over a net, and parts of others.

Not here: what an answer means for a ledger (`drain/steps/answers.py`), the ledger as bytes (`store/ledger.py`).
The rule: an answer is written after a compare of the failure that its operator saw.
"""
