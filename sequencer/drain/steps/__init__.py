"""Steps of a message: what a program declares, the rules, a pass over the open steps, answers of operators. Pure.

A pass is a generator. It asks for a call of a step, for a call of a check, or for a note of the ledger, hears what came
of it, and ends with what becomes of the message.

Not here: who runs a step (`consume`), what is sent when (`drain`), the ledger as bytes (`store/ledger.py`).
The rule: the next step begins only after the outcome of the one before is in the server.
"""
