"""The master of `sequencer run`, what it has beyond `consume`: its file, many pools, their scaling, a reload, status.

Not here: one pool of consumers and the loop over pools (`processes/pool.py`, `processes/supervisor.py`).
The rule: how many consumers there should be is pure, and walked in virtual time (`scaling`); in the process of the
master no code of an application runs, but in one of its own (`application`).
"""
