"""Benchmarks: `python -m sequencer.benchmarks SCENARIO`.

One file for each scenario (`ordering.py`), on shared parts: `workload` says which messages there are, `fleet` and
`member` are the two ends of the processes that append and consume them, `judge` counts only what was in order,
`machine` and `report` say what was measured, and on what.
"""
