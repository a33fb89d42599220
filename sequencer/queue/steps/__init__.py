"""What is seen of the steps of a message, and what a person says of them. Operations over a net, and parts of others.

Not here: what an answer means for a ledger (`drain/steps/answers.py`), the ledger as bytes (`store/ledger.py`).
The rule: an answer is written behind a compare of the failure that its person saw.
"""
