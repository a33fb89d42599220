"""Benchmarks: `python -m sequencer.benchmarks SCENARIO`.

`scenarios` says what is measured, a file or a package each; `peers` does the same for other systems, and installs them.
`load` makes the messages, runs the processes that append and handle them, and judges their history. `kit` has what
scenarios share: options, rounds, the server, the machine, tables and charts.

Not here: proofs under faults, and tests (they are beside the product, not in the wheel).
The rule: a figure stands only beside its spread, its machine and a history that was in order.
"""
