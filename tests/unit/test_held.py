"""Two threads on what one consumer holds: the one that handles takes no lock, and the renewer may be anywhere."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from sequencer.calls.append import append
from sequencer.calls.claim import claim
from sequencer.calls.settle import Ack
from sequencer.drain.held import Held
from sequencer.drain.held_group import HeldGroup
from sequencer.settings.options import ClaimLimits
from sequencer.settings.pace import ACK_AFTER_S, RELEASE_S, RENEWER_AFTER_S, RENEWER_S
from sequencer.store.item import Item
from sequencer.store.keys import shard_keys
from tests.support.model.shard import ModelShard

KEYS = shard_keys("n", "q", 0)


class Watched(HeldGroup):
    """Calls `meanwhile` at each look at what it is: the moments between which the other thread may do anything."""

    __slots__ = ("_is_open",)
    meanwhile: Callable[[], Any] = staticmethod(lambda: None)

    @property
    def is_open(self) -> bool:
        was = self._is_open
        Watched.meanwhile()
        return was

    @is_open.setter
    def is_open(self, value: bool) -> None:
        self._is_open: bool = value

    def entry(self, done: int, *, release: bool) -> Ack:
        Watched.meanwhile()
        entry = super().entry(done, release=release)
        Watched.meanwhile()
        return entry


class Stepping(Held):
    """Calls `Watched.meanwhile` before each look at, and each change of, what the two threads tell each other."""

    def __getattribute__(self, name: str) -> Any:
        if name in ("current", "gives_up"):
            Watched.meanwhile()
        return super().__getattribute__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("current", "gives_up"):
            Watched.meanwhile()
        super().__setattr__(name, value)


class Eager(Stepping):
    """The negative control: begins without a look at what the renewer is about."""

    def begin(self, index: int) -> bool | None:
        self.current = index
        return self.groups[index].is_open


class Hasty(Stepping):
    """The negative control: looks at what the renewer is about before it says what it begins."""

    def begin(self, index: int) -> bool | None:
        gives_up = self.gives_up
        self.current = index
        return None if gives_up else self.groups[index].is_open


class Stuck(Stepping):
    """The negative control: says for ever that groups are being released."""

    def settle(self, *, everything: bool = False, unbegun: bool = False) -> None:
        super().settle(everything=everything, unbegun=unbegun)
        self.gives_up = unbegun


class Careless(Held):
    """The negative control: forgets when the first message was finished at the end of its work."""

    def settle(self, *, everything: bool = False, unbegun: bool = False) -> None:
        finished = self.finished_at
        super().settle(everything=everything, unbegun=unbegun)
        self.finished_at = None if finished is not None else self.finished_at


def made(kind: type[Held] = Held) -> Held:
    """Of two groups with two messages each, the first message of the first is finished."""
    shard = ModelShard()
    for name in "ab":
        shard.run(append(KEYS, [Item(name, i, "", b"[1]") for i in "xy"]))
    held = kind([KEYS], 60.0)
    claimed = shard.run(claim(KEYS, "q", "me", 60.0, ClaimLimits(9, 9, 1000)))
    held.take(0, claimed.groups, 0.0, 0.0)
    held.groups = [Watched(group.leased) for group in held.groups]
    assert held.begin(0)
    held.running_since = 1.0
    held.finish(held.groups[0], 1.0, 1.001)
    return held


def at_moment(number: int, act: Callable[[], Any]) -> list[Any]:
    """Lets `act` happen at this moment; what it returned is in the list then."""
    moments, found = itertools.count(), list[Any]()

    def meanwhile() -> None:
        if next(moments) == number:
            found.append(act())

    Watched.meanwhile = staticmethod(meanwhile)
    return found


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    yield
    Watched.meanwhile = staticmethod(lambda: None)


class Turns:
    """Lets two threads make their steps in a given order: the handling one at these steps, else the renewer."""

    def __init__(self, steps: tuple[int, ...]) -> None:
        self._steps, self._at, self._over = set(steps), 0, set[str]()
        self._moved = threading.Condition()

    def take(self) -> None:
        me = threading.current_thread().name
        with self._moved:
            assert self._moved.wait_for(lambda: self._is_for(me), 10)
            self._at += 1
            self._moved.notify_all()

    def _is_for(self, me: str) -> bool:
        return bool(self._over) or me == ("handling" if self._at in self._steps else "renewer")

    def run(self, name: str, act: Callable[[], Any]) -> threading.Thread:
        def work() -> None:
            act()
            with self._moved:
                self._over.add(name)
                self._moved.notify_all()

        thread = threading.Thread(target=work, name=name)
        thread.start()
        return thread


STEPS, OWN = 15, 3
"""Of both threads in `settle` and `begin`; of `begin`."""


def begin(held: Held, answers: list[bool | None]) -> None:
    answers.append(held.begin(1))


def wrongs(kind: type[Held]) -> list[tuple[int, ...]]:
    """The orders of steps in which a group is begun and released, or can't be begun afterwards."""
    found = []
    for steps in itertools.combinations(range(STEPS), OWN):
        held, answers, turns = made(kind), list[bool | None](), Turns(steps)
        Watched.meanwhile = turns.take
        threads = [
            turns.run("handling", partial(begin, held, answers)),
            turns.run("renewer", partial(held.settle, unbegun=True)),
        ]
        for thread in threads:
            thread.join(10)
        Watched.meanwhile = staticmethod(lambda: None)
        is_open = held.groups[1].is_open
        if (answers[0] and not is_open) or held.begin(1) is not is_open:
            found.append(steps)
    return found


def unnoticed(kind: type[Held], moment: int) -> bool | None:
    """Whether a message finished at this moment is neither in the pending acks nor noticed; None when there is no
    such.
    """
    held = made(kind)
    group = held.groups[0]
    found = at_moment(moment, lambda: held.finish(group, 1.001, 1.002))
    held.settle()
    return group.acked < group.done and held.finished_at is None if found else None


def moments(judge: Callable[[type[Held], int], bool | None], kind: type[Held]) -> list[bool]:
    found = itertools.takewhile(lambda one: one is not None, (judge(kind, moment) for moment in range(50)))
    return [bool(one) for one in found]


@pytest.mark.slow
def test_a_group_is_not_begun_and_given_back_at_once() -> None:
    assert not wrongs(Stepping)


@pytest.mark.slow
@pytest.mark.parametrize("control", [Eager, Hasty, Stuck])
def test_a_handshake_that_is_left_out_turned_round_or_never_over_is_found(control: type[Held]) -> None:
    assert wrongs(control)


def test_what_is_finished_while_the_renewer_settles_is_not_forgotten() -> None:
    found = moments(unnoticed, Held)
    assert len(found) > 2
    assert not any(found)
    assert any(moments(unnoticed, Careless))


def test_a_message_that_is_finished_while_the_renewer_settles_is_acknowledged_with_its_group() -> None:
    """Or its group is released with it, and it is handled again."""
    for moment in itertools.count():
        held = made()
        group = held.groups[0]
        found = at_moment(moment, partial(held.finish, group, 1.001, 1.002))
        held.settle()
        Watched.meanwhile = staticmethod(lambda: None)
        held.settle(everything=True)
        if not found:
            break
        sending = held.outgoing()
        told = [entry for entry in sending.acks if entry.group == "a"] if sending else []
        assert sum(len(entry.members) for entry in told) == 2, moment
        assert [entry.release for entry in told].index(True) == len(told) - 1
    assert moment > 2


@pytest.mark.parametrize(
    ("running_s", "waiting_s", "is_sent", "is_released"),
    [
        (0.0, 1.0, False, False),  # a quick one: its own thread sends, with the others
        (RENEWER_S, RENEWER_AFTER_S - 1e-5, False, False),
        (RENEWER_S, RENEWER_AFTER_S, True, False),
        (ACK_AFTER_S, 0.0, True, False),
        (RELEASE_S, 0.0, True, True),
    ],
)
def test_what_the_renewer_sends_beside_a_handler(
    running_s: float, waiting_s: float, is_sent: bool, is_released: bool
) -> None:
    held, now = made(), 10.0
    held.running_since, held.finished_at = now - running_s, now - max(running_s, waiting_s)
    held.settle_late(now + 1e-9)
    acks = sending.acks if (sending := held.outgoing()) else []
    assert [entry.group for entry in acks if entry.members] == ["a"] * is_sent
    assert held.groups[1].is_open is not is_released
