"""Benchmarks: `python -m benchmarks SCENARIO`.

`scenarios` says what is measured, a file or a package each; `peers` does the same for other systems, and installs them.
`load` makes the messages, runs the processes that append and handle them, and judges their history. `kit` has what
scenarios share: options, rounds, the server, the machine, tables and charts.

Not here: fault tests under faults, and tests .
The rule: a figure stands only beside its spread, its machine and a history that was in order.
"""

import os
from pathlib import Path

# It is not installed: the processes that a benchmark starts find it by this, whatever their working directory.
ROOT = str(Path(__file__).parents[1])
if ROOT not in os.environ.get("PYTHONPATH", "").split(os.pathsep):
    os.environ["PYTHONPATH"] = os.pathsep.join([ROOT, *filter(None, [os.environ.get("PYTHONPATH")])])
