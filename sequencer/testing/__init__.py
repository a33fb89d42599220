"""For tests of what you build on sequencer.

`MemoryQueue` needs no server and no time; `assert_order` checks the order in which messages were handled.

Not here: fault tests of sequencer itself (`tests/faults`, beside the package).
The rule: nothing here is needed to run a queue.
"""

from .memory_queue import Drained, MemoryQueue, StepRun
from .order import assert_order
from .waiting import wait_until

__all__ = ["Drained", "MemoryQueue", "StepRun", "assert_order", "wait_until"]
