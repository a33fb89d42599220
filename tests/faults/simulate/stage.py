"""The stage of a simulation: virtual time, and actors of which exactly one runs at any moment.

An actor is a thread that runs real code. Wherever that code would wait (for a reply, a lock, an event, a sleep) it
gives the baton back, and whatever is due next goes on: another actor, or something that happens by itself, such as the
arrival of a request. Nothing else decides who runs, so that a run follows from its seed alone.

Actors belong to processes. A process can be killed (its actors end where they stand, and do no more input or output)
and frozen (its actors go on when it thaws; what is on its way arrives meanwhile).
"""

from __future__ import annotations

import heapq
import random
import threading
from collections.abc import Callable
from typing import Any

MAX_STEPS = 400_000
"""Far more than any seed takes; a run that does not end is a finding, not a hang."""
_here = threading.local()


class Crashed(BaseException):
    """This actor's process was killed."""


class Stuck(Exception):
    """Nothing is left to happen, or the run does not end."""


class Process:
    """Actors that die and freeze together."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_dead = False
        self.frozen_until_us = self.cut_until_us = 0
        """When it thaws, and when its network is there again."""
        self.actors: list[Actor] = []


class Actor:
    """One thread of a process."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.ticket, self.is_ended = 0, False
        """Changes each time it goes on, so that what would wake it from an earlier wait is known to be stale."""
        self.baton = threading.Lock()
        self.baton.acquire()
        self.thread: threading.Thread | None = None
        process.actors.append(self)


class Stage:
    """Virtual time in us from 0, and whose turn it is. Made, used and ended by one thread, which is an actor too."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.now_us = self.steps = 0
        self.is_open = True
        """Until `close`: who was killed may be replaced."""
        self.problem: BaseException | None = None
        self.root = self.current = Actor(Process("root"))
        self._heap: list[tuple[int, int, Actor | None, int, Callable[[], None] | None]] = []
        self._pushed = 0
        self._live: dict[Actor, None] = {}
        _here.stage = self

    @property
    def now_s(self) -> float:
        return self.now_us / 1e6

    def _push(self, at_us: int, actor: Actor | None, ticket: int, act: Callable[[], None] | None) -> None:
        self._pushed += 1
        heapq.heappush(self._heap, (at_us, self._pushed, actor, ticket, act))

    def after(self, us: int, act: Callable[[], None]) -> None:
        """Something that happens by itself, `us` from now; it must not wait."""
        self._push(self.now_us + us, None, 0, act)

    def start(self, process: Process, run: Callable[[], Any]) -> Actor:
        """A new actor, which begins when it is its turn."""
        actor = Actor(process)

        def body() -> None:
            _here.stage = self
            actor.baton.acquire()
            try:
                if not process.is_dead:
                    run()
            except Crashed:
                pass
            except BaseException as error:  # a defect of what is simulated: the run is over
                self.fail(error)
            self._live.pop(actor)
            actor.is_ended = True
            self._go_on(None)

        actor.thread = threading.Thread(target=body, daemon=True)
        self._live[actor] = None
        actor.thread.start()
        self.wake(actor)
        return actor

    def fail(self, error: BaseException) -> None:
        """End the run with this."""
        self.problem = self.problem or error
        self.wake(self.root)

    # -- waiting ----------------------------------------------------------------------------------------------

    def sleep(self, us: int) -> None:
        """The running actor goes on `us` from now. Raises Crashed when its process was killed meanwhile."""
        until_us = self.now_us + us
        self.wait(max(0, us))
        while self.now_us < until_us:  # woken for something that it waited for before
            self.wait(until_us - self.now_us)

    def wait(self, us: int | None) -> None:
        """The running actor goes on when it is woken, or `us` from now. Raises Crashed as `sleep` does."""
        me = self.current
        if me.process.is_dead:
            raise Crashed
        if us is not None:
            self._push(self.now_us + us, me, me.ticket, None)
        self._go_on(me)
        if me.process.is_dead:
            raise Crashed
        if me is self.root and self.problem is not None and self.is_open:
            raise self.problem

    def wake(self, actor: Actor) -> None:
        """Let an actor that waits go on."""
        self._push(self.now_us, actor, actor.ticket, None)

    def _go_on(self, me: Actor | None) -> None:
        """Whatever is due next; returns when it is `me` again, or at once for an actor that has ended."""
        chosen = self._next()
        chosen.ticket += 1
        self.current = chosen
        if chosen is not me:
            chosen.baton.release()
            if me is not None:
                me.baton.acquire()

    def _next(self) -> Actor:
        while True:
            self.steps += 1
            if not self._heap or self.steps > MAX_STEPS:
                self.problem = self.problem or Stuck(f"after {self.steps} steps, {len(self._heap)} things to come")
                return self.root
            at_us, _, actor, ticket, act = heapq.heappop(self._heap)
            self.now_us = max(self.now_us, at_us)
            if act is not None:
                try:
                    act()
                except BaseException as error:
                    self.fail(error)
            elif actor is not None and actor.ticket == ticket and not actor.is_ended:
                thaws_us = actor.process.frozen_until_us
                if thaws_us <= self.now_us or actor.process.is_dead:
                    return actor
                self._push(thaws_us, actor, ticket, None)

    # -- processes --------------------------------------------------------------------------------------------

    def kill(self, process: Process) -> None:
        """End a process; the running actor, if it is one of it, ends at its next wait."""
        process.is_dead = True
        for actor in process.actors:
            if actor in self._live and actor is not self.current:
                self.wake(actor)

    def close(self) -> None:
        """End all actors, and wait until they have."""
        self.steps, self.is_open = 0, False
        for actor in list(self._live):
            self.kill(actor.process)
        threads = [actor.thread for actor in self._live]
        while self._live:
            self.sleep(1)
            if self.steps > MAX_STEPS:
                raise Stuck("actors do not end")
        for thread in threads:
            if thread is not None:
                thread.join()
        _here.stage = None


def current_stage() -> Stage | None:
    """The stage of the thread that asks, None for one that is no actor."""
    stage: Stage | None = getattr(_here, "stage", None)
    return stage
