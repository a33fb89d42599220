"""Fault tests: `python -m tests.faults` breaks things on purpose and judges what came of it.

Each fault test is a module with `run(scale) -> Result`; what users can run on their own handlers is in
`sequencer.testing`.
"""

import os
from pathlib import Path

ROOT = str(Path(__file__).parents[2])
_paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
if ROOT not in _paths:  # for the processes that fault tests start: they run with -P, and their apps are in this package
    os.environ["PYTHONPATH"] = os.pathsep.join([ROOT, *_paths])
