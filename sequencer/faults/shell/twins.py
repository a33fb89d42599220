"""The broken twins by name: each brings back what was wrong once, in the supervisor, its consumers, or both.

A few names are no twins but conditions that a case needs in these processes (`hurried`).
"""

from __future__ import annotations

import os

from . import twins_consumer, twins_supervisor
from .settings import TWINS

PARTS = (twins_supervisor.CHANGES, twins_consumer.CHANGES)
NAMES = {name for part in PARTS for name in part}


def apply() -> None:
    """Change this process as the environment says. Raises KeyError for a name that is not known."""
    for name in filter(None, os.environ.get(TWINS, "").split(",")):
        if name not in NAMES:
            raise KeyError(name)
        for part in PARTS:
            if name in part:
                part[name]()
