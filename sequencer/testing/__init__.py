"""For tests of what you build on sequencer, and of sequencer itself: histories and their checkers, and waiting."""

from .handled import Handled, Verdict, check_history
from .history import Event, Recorder, read_events
from .judgement import Judgement, judge
from .waiting import wait_until

__all__ = [
    "Event",
    "Handled",
    "Judgement",
    "Recorder",
    "Verdict",
    "check_history",
    "judge",
    "read_events",
    "wait_until",
]
