"""`python -m workers PEER`, in the environment of that peer: append or consume what the job on standard input says."""

from __future__ import annotations

import sys
from importlib import import_module

from .stage import play

if __name__ == "__main__":
    play(import_module(f".with_{sys.argv[1]}", __package__))
