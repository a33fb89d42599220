"""For tests of what you build on sequencer, and of sequencer itself.

`MemoryQueue` needs no server and no time; `Recorder` and `judge` write a history down and judge it.

Not here: fault tests of sequencer itself under faults (`tests/faults`, beside the package).
The rule: a judge knows only the history, and nothing here is needed to run a queue.
"""

from ..store.group import encode_group
from .judge.history import Event, Recorder, read_events
from .judge.judgement import Judgement, assert_order, judge
from .memory_queue import Drained, MemoryQueue, StepRun
from .waiting import wait_until

__all__ = [
    "Drained",
    "Event",
    "Judgement",
    "MemoryQueue",
    "Recorder",
    "StepRun",
    "assert_order",
    "encode_group",
    "judge",
    "read_events",
    "wait_until",
]
