"""The master of `sequencer run`, what it has beyond `consume`: its file, many pools, their scaling, a reload, status.

Not here: one pool of consumers and the loop over pools (`processes/pool.py`, `processes/supervisor.py`).
The rule: what decides is pure and walked in virtual time; no code of an application runs in this process.
"""
