"""A consumer of a queue whose shards are on several nodes: one slot, whose handlers run in the thread that runs it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial

from ..drain.slots import Slot
from ..drain.steps.declared import Steps
from ..settings.pace import STOP_CHECK_S
from .perform import Performer
from .slots import SlotConsumer, ThreadSlot
from .time_limit import TimeLimit


class MainSlot(ThreadSlot):
    """Signals interrupt its handlers, also where they wait."""

    limit: TimeLimit  # type: ignore[assignment]

    def __init__(self, slot: Slot, consumer: SlotConsumer) -> None:
        super().__init__(slot, consumer)
        self.limit = TimeLimit(consumer.timeout_s, self._handler.timeouts_s if isinstance(self._handler, Steps) else ())

    def is_over_time(self, now: float) -> bool:
        return self.limit.check(now)


class ApartConsumer(SlotConsumer):
    """Runs `handler` for one message at a time. A shard whose node is slow or away holds back only itself."""

    is_single = True
    _thread = 0

    def _new(self, slot: Slot) -> ThreadSlot:
        return MainSlot(slot, self)

    @property
    def _one(self) -> ThreadSlot:
        return next(iter(self.slots.values()))

    def interrupt(self) -> None:
        """Stop now: from its thread's signal handler, raises StopConsuming into a running handler, where it may."""
        super().interrupt()
        self._one._is_interrupted = True
        if threading.get_ident() == self._thread:
            Performer.interrupt(self._one)

    def tell(self, call: Callable[[], object]) -> None:
        self._one.answers.put(partial(self.tell_now, call))

    def _tell(self) -> None:
        while not self._one.answers.empty():
            if callable(left := self._one.answers.get()):
                left()

    def _run_slots(self) -> None:
        one, is_over, self._thread = self._one, threading.Event(), threading.get_ident()
        watch = threading.Thread(target=self._watch_until, args=(is_over,), name="sequencer-watch", daemon=True)
        with one.limit.in_force():
            try:
                watch.start()
                one.run(self._options)
            finally:
                is_over.set()

    def _watch_until(self, is_over: threading.Event) -> None:
        while not is_over.wait(STOP_CHECK_S):
            self.watch(time.monotonic())
