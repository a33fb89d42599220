"""What the library takes for `time`, `threading` and `random` while it is simulated: the same names, in virtual time.

Real consumers, links and clients then run as they are. For threads that are no actors nothing changes.
"""

from __future__ import annotations

import math
import queue
import random
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import Any, cast

from sequencer.consume import apart, hub, perform, renewer, slots, threads, time_limit
from sequencer.net import blocking, link, repeats, wait

from .stage import Actor, Crashed, Stage, current_stage

BEGAN_S = 1_800_000_000.0
"""What the clocks show when a simulation begins, in seconds since 1970: any time will do, but always the same."""


def as_us(seconds: float) -> int:
    """A time to wait, in us; never 0 for one above it, so that a loop which waits for its end comes to it."""
    return math.ceil(seconds * 1e6)


class VirtualTime:
    """`time` for actors; the real one for every other thread."""

    @staticmethod
    def monotonic() -> float:
        stage = current_stage()
        return time.monotonic() if stage is None else stage.now_s

    @staticmethod
    def time() -> float:
        stage = current_stage()
        return time.time() if stage is None else BEGAN_S + stage.now_s

    @staticmethod
    def sleep(seconds: float) -> None:
        stage = current_stage()
        if stage is None:
            time.sleep(seconds)
        else:
            stage.sleep(as_us(seconds))


class VirtualRandom:
    """`random` for actors, from the seed of the run."""

    @staticmethod
    def random() -> float:
        stage = current_stage()
        return random.random() if stage is None else stage.rng.random()

    @staticmethod
    def randrange(stop: int) -> int:
        stage = current_stage()
        return random.randrange(stop) if stage is None else stage.rng.randrange(stop)


class VirtualLock:
    """A lock between the actors of a stage."""

    def __init__(self, stage: Stage) -> None:
        self._stage, self._is_held = stage, False
        self._waiting: list[Actor] = []

    def __enter__(self) -> None:
        stage = self._stage
        while self._is_held:
            self._waiting.append(stage.current)
            stage.wait(None)
        if stage.current.process.is_dead:
            raise Crashed
        self._is_held = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_held = False
        waiting, self._waiting = self._waiting, []
        for actor in waiting:
            self._stage.wake(actor)


class VirtualEvent:
    """An event between the actors of a stage."""

    def __init__(self, stage: Stage) -> None:
        self._stage, self._is_set = stage, False
        self._waiting: list[Actor] = []

    def is_set(self) -> bool:
        return self._is_set

    def clear(self) -> None:
        self._is_set = False

    def set(self) -> None:
        self._is_set = True
        waiting, self._waiting = self._waiting, []
        for actor in waiting:
            self._stage.wake(actor)

    def wait(self, timeout: float | None = None) -> bool:
        """As Python's: true also where it was cleared again before the waiting actor's turn, unless time was up."""
        if self._is_set:
            return True
        me, stage = self._stage.current, self._stage
        until_us = None if timeout is None else stage.now_us + as_us(timeout)
        self._waiting.append(me)
        while me in self._waiting:  # else it was woken for something that it waited for before
            if until_us is not None and stage.now_us >= until_us:
                self._waiting.remove(me)
                return False
            stage.wait(None if until_us is None else until_us - stage.now_us)
        return True


class VirtualQueue:
    """A queue between the actors of a stage: `queue.SimpleQueue`."""

    def __init__(self, stage: Stage) -> None:
        self._items, self._event = deque[Any](), VirtualEvent(stage)

    def put(self, item: Any) -> None:
        self._items.append(item)
        self._event.set()

    def get(self, timeout: float | None = None) -> Any:
        while not self._items:
            self._event.clear()
            if not self._event.wait(timeout):
                raise queue.Empty
        return self._items.popleft()

    def empty(self) -> bool:
        return not self._items


class SimpleQueue:
    def __class_getitem__(cls, _: Any) -> Any:
        return lambda: VirtualQueue(stage) if (stage := current_stage()) else queue.SimpleQueue()


class VirtualQueues:
    """`queue` for actors."""

    Empty, SimpleQueue = queue.Empty, SimpleQueue


class VirtualThread:
    """A thread that is one more actor of the process that starts it."""

    def __init__(self, *, target: Callable[..., Any], args: tuple[Any, ...] = (), name: str = "", daemon: bool) -> None:
        self._run, self._actor = partial(target, *args), cast(Actor, None)

    def start(self) -> None:
        stage = current_stage()
        assert stage is not None
        self._actor = stage.start(stage.current.process, self._run)

    def is_alive(self) -> bool:
        if self._actor.process.is_dead:  # nobody is left who could look
            raise Crashed
        return not self._actor.is_ended

    def join(self, timeout: float | None = None) -> None:
        stage = current_stage()
        assert stage is not None
        while not self._actor.is_ended:
            stage.sleep(1_000)


class VirtualThreading:
    """`threading` for actors."""

    Thread = staticmethod(
        lambda **options: VirtualThread(**options) if current_stage() else threading.Thread(**options)
    )
    Lock = staticmethod(lambda: VirtualLock(stage) if (stage := current_stage()) else threading.Lock())
    get_ident = staticmethod(threading.get_ident)
    current_thread, main_thread = staticmethod(threading.current_thread), staticmethod(threading.main_thread)
    Event = staticmethod(lambda: VirtualEvent(stage) if (stage := current_stage()) else threading.Event())


@contextmanager
def virtual() -> Iterator[None]:
    """Inside, actors that run the library's code do so in virtual time; other threads notice nothing."""
    places: list[tuple[Any, str, Any]] = [
        (threads, "time", VirtualTime),
        *((module, "time", VirtualTime) for module in (apart, hub, slots, perform, time_limit)),
        *((module, "threading", VirtualThreading) for module in (apart, hub, slots, time_limit)),
        *((module, "queues", VirtualQueues) for module in (hub, slots)),
        (renewer, "threading", VirtualThreading),
        (renewer, "time", VirtualTime),
        (threads, "random", VirtualRandom),
        (link, "time", VirtualTime),
        (repeats, "time", VirtualTime),
        (wait, "time", VirtualTime),
        (blocking, "time", VirtualTime),
    ]
    before = [getattr(module, name) for module, name, _ in places]
    interval_s = sys.getswitchinterval()
    for module, name, substitute in places:
        setattr(module, name, substitute)
    try:
        yield
    finally:
        sys.setswitchinterval(interval_s)
        for (module, name, _), real in zip(places, before, strict=True):
            setattr(module, name, real)
