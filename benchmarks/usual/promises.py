"""What each system keeps: a table whose cells are tried, each with real processes on an emptied server.

    equal scores           messages of a group have one score and random ids: handled as they arrived?
    scores out of order    a backlog arrives shuffled: handled by score?
    producer killed        `kill -9` of a producer while it appends, some times: is all handled that it was told is
                           stored, and what others append to the same groups?
    consumer killed        `kill -9` of one of two consumers in its handler, and a new one in its place: is all handled,
                           each group in order and by one at a time?
    outlives the lock      a handler of 3 s where lock or lease lasts 1 s, beside an idle consumer: does it run alone?
    poison message         a handler that always fails for one message: is that one kept, do the others of its group
                           wait, do other groups go on?
    same id three times    twice while it is pending, and again once it was handled: handled once?
    two producers at once  both append to the same groups while two consumers drain: is all handled, the messages of
                           each producer in order?

A cell is kept when every trial of it was fine; else it says what happened, in numbers. All systems get the same
messages and the same patience; SETTINGS below says what a trial sets. What a handler began when its process was killed
counts as ended then. At least once is what all of them promise: a repeat by itself breaks nothing, and is counted.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sequencer.texts.words import many

from ..load.fleet import MemberFailed
from ..peers.host import Address
from .crew import Crew, Planned, Player, plan
from .faults import cut_short, faults, names, repeats
from .rates import Parameters
from .remains import is_held

PATIENCE_S = 12.0
"""How long a trial waits for what is still to come: many times what any of the locks in SETTINGS lasts."""
START_S = 1.5
"""Celery needs this long until it consumes."""
RESTORE_S = 25.0
"""The same for what a killed consumer held. RQ moves it to its failed jobs later than this, and runs it no more."""
LOCK_S = 2.0
SHORT_S = 1.0
OUTLIVES_S = 3.0
KILLS = 4
ATTEMPTS = 3

Fault = str
"""What went wrong in a trial, "" for nothing."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One try of one cell."""

    claim: str
    system: str
    index: int
    fault: Fault
    repeats: int = 0

    @property
    def is_valid(self) -> bool:
        return not self.fault

    def line(self) -> str:
        again = f", {self.repeats} handled again" if self.repeats else ""
        return f"{self.claim}, {self.system}, try {self.index}: {self.fault or 'kept'}{again}"

    def as_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in (*self.__slots__, "is_valid")}


def settings(lock_s: float, consumers: int = 2) -> dict[str, Any]:
    """How long a lock, lease or visibility timeout lasts; so that trials need not last minutes."""
    # By default kombu looks for what was not acknowledged every 100 s.
    often = {"unacked_restore_interval": 1, "unacked_restore_throttle": 1, "unacked_restore_limit": 1000}
    transport = {"visibility_timeout": lock_s, **often}
    celery = {"task_acks_late": True, "task_reject_on_worker_lost": True, "broker_transport_options": transport}
    queue = {"max_attempts": ATTEMPTS, "backoff": 0.1}
    return {"lock": lock_s, "consumers": consumers, "conf": celery, "queue": queue}


# -- the claims ---------------------------------------------------------------------------------------------------


def fill(crew: Crew, messages: Sequence[Planned], **more: Any) -> Player:
    """Append all, and wait for it."""
    producer = crew.producer(messages, batch=True, **more)
    crew.start(producer)
    producer.wait(60.0)
    return producer


def uneven(messages: Sequence[Planned], seed: int, most_s: float) -> dict[str, float]:
    """How long each handler takes: where all take the same time, two consumers may keep order by chance."""
    chance = random.Random(seed)
    return {one.id: chance.uniform(0.0, most_s) for one in messages}


def equal_scores(crew: Crew, seed: int) -> tuple[Fault, int]:
    """The consumers run before, so that what they do once, when they start, keeps none of them away."""
    messages = [one._replace(score=7.0) for one in plan(3, 100, seed)]
    more: dict[str, Any] = {"setting": settings(10.0), "slow": uneven(messages, seed, 0.04)}
    crew.start(*(crew.consumer(**more) for _ in range(2)))
    time.sleep(START_S)
    fill(crew, messages)
    crew.wait_handled(len(messages), 60.0, PATIENCE_S)
    handled = crew.end().handled
    return faults(messages, handled), repeats(handled)


def scores_out_of_order(crew: Crew, seed: int) -> tuple[Fault, int]:
    messages = plan(3, 200, seed)
    random.Random(seed).shuffle(shuffled := list(messages))
    slow = uneven(messages, seed, 0.01)
    players = [crew.consumer(setting=settings(10.0), slow=slow) for _ in range(2)]
    fill(crew, shuffled)
    crew.start(*players)
    crew.wait_handled(len(messages), 60.0, PATIENCE_S)
    handled = crew.end().handled
    return faults(messages, handled), repeats(handled)


def producer_killed(crew: Crew, seed: int) -> tuple[Fault, int]:
    """Each kill falls at a random time; the first consumer starts before, so that groups come and go meanwhile."""
    chance, option = random.Random(seed), settings(LOCK_S, 1)
    consumer = crew.consumer(setting=option, is_safe=True)
    rounds = [plan(50, 20_000, seed, f"killed-{number}") for number in range(KILLS)]
    producers = [crew.producer(messages, setting=option, is_safe=True) for messages in rounds]
    crew.start(consumer)
    stored: list[Planned] = []
    for producer, messages in zip(producers, rounds, strict=True):
        crew.start(producer)
        crew.wait_until(lambda producer=producer: producer.count > 0, 20.0)  # type: ignore[misc]  # it takes none
        time.sleep(chance.uniform(0.05, 0.3))
        producer.kill()
        stored += messages[: len(producer.events())]
    last = [one._replace(score=1e6) for one in plan(50, 50, seed, "after")]
    fill(crew, last, setting=option)
    stored += last
    crew.wait_all(names(stored), 60.0, PATIENCE_S / 2)
    handled = crew.end().handled
    lost = names(stored) - {(one.group, one.id) for one in handled}
    groups = len({group for group, _ in lost})
    return f"{len(lost)} stood still in {many(groups, 'group')}" if lost else "", repeats(handled)


def holder(message: Planned, *players: Player) -> Player | None:
    """Who has begun this message."""
    begun = ["began", message.group, message.id]
    return next((player for player in players if any(event[:3] == begun for event in player.events())), None)


def consumer_killed(crew: Crew, seed: int) -> tuple[Fault, int]:
    messages, option = plan(3, 200, seed), settings(LOCK_S)
    long = messages[60]
    slow = {**uneven(messages, seed, 0.02), long.id: 1.0}
    more: dict[str, Any] = {"setting": option, "slow": slow, "is_safe": True}
    first, second, fresh = (crew.consumer(**more) for _ in range(3))
    fill(crew, messages, setting=option)
    crew.start(first, second)
    crew.wait_until(lambda: holder(long, first, second) is not None, PATIENCE_S)
    if (victim := holder(long, first, second)) is None:
        return "the message of the kill was not begun", 0
    killed = {victim.owner: victim.kill()}
    crew.start(fresh)
    crew.wait_all(names(messages), 60.0, RESTORE_S)
    crew.settle(LOCK_S)
    happened = crew.end()
    return faults(messages, happened.handled, begun=cut_short(happened, killed)), repeats(happened.handled)


def outlives_the_lock(crew: Crew, seed: int) -> tuple[Fault, int]:
    """The second consumer has nothing to do soon, and looks for more: on Streams it is a stand-by."""
    messages, option = plan(20, 40, seed), settings(SHORT_S, 1)
    slow = {messages[0].id: OUTLIVES_S}
    players = [crew.consumer(setting=option, slow=slow, work_s=0.005, is_safe=True) for _ in range(2)]
    fill(crew, messages, setting=option)
    crew.start(*players)
    crew.wait_all(names(messages), 60.0, PATIENCE_S)
    crew.settle(OUTLIVES_S + SHORT_S)  # a second run of the slow one ends, too
    handled = crew.end().handled
    return faults(messages, handled), repeats(handled)


def poison(crew: Crew, seed: int) -> tuple[Fault, int]:
    """In the first of five groups the second message always fails."""
    messages, option = plan(5, 30, seed), settings(10.0, 1)
    bad = messages[5]
    consumer = crew.consumer(setting=option, failing=[bad.id], is_safe=True)
    fill(crew, messages, setting=option)
    crew.start(consumer)
    others = [one for one in messages if one.group != bad.group]
    crew.wait_all(names(others), 60.0, PATIENCE_S)
    crew.settle(PATIENCE_S / 6)
    happened = crew.end()
    past = [one for one in happened.handled if one.group == bad.group and one.id != messages[0].id]
    done = {(one.group, one.id) for one in happened.handled}
    said = [
        "" if is_held(crew.address.url, bad.id) else f"dropped after {many(len(happened.failed), 'try')}",
        f"{len(past)} of its group went past it" if past else "",
        f"{sum((one.group, one.id) not in done for one in others)} of other groups waited"
        if any((one.group, one.id) not in done for one in others)
        else "",
    ]
    return ", ".join(filter(None, said)), repeats(happened.handled)


def same_id(crew: Crew, seed: int) -> tuple[Fault, int]:
    one, option = plan(1, 1, seed), settings(10.0, 1)
    consumer = crew.consumer(setting=option)
    for _ in range(2):
        fill(crew, one, setting=option)
    crew.start(consumer)
    crew.wait_handled(1, 20.0, PATIENCE_S)
    fill(crew, one, setting=option)
    crew.wait_handled(3, PATIENCE_S / 6, PATIENCE_S / 6)
    handled = crew.end().handled
    times = len(handled)
    return "" if times == 1 else f"handled {times} times", max(0, times - 1)


def race(crew: Crew, seed: int) -> tuple[Fault, int]:
    """Scores count up for each producer: equal ones are another claim."""
    option = settings(LOCK_S)
    halves = [plan(5, 1_000, seed, f"producer-{number}") for number in range(2)]
    by_id = {one.id: number for number, half in enumerate(halves) for one in half}
    messages = [one for half in halves for one in half]
    slow = uneven(messages, seed, 0.001)
    players = [crew.consumer(setting=option, slow=slow) for _ in range(2)]
    producers = [crew.producer(half, setting=option) for half in halves]
    crew.start(*players)
    crew.start(*producers)
    crew.wait_handled(len(messages), 60.0, PATIENCE_S)
    handled = crew.end().handled
    return faults(messages, handled, of=lambda one: f"{one.group}/{by_id[one.id]}"), repeats(handled)


CLAIMS: dict[str, Callable[[Crew, int], tuple[Fault, int]]] = {
    "equal scores": equal_scores,
    "scores out of order": scores_out_of_order,
    "producer killed": producer_killed,
    "consumer killed": consumer_killed,
    "outlives the lock": outlives_the_lock,
    "poison message": poison,
    "same id three times": same_id,
    "two producers at once": race,
}


def measure(address: Address, parameters: Parameters, on_trial: Callable[[Trial], None]) -> list[Trial]:
    """Every cell, the systems in turn. Raises ServerError."""
    trials = []
    for index in range(1, parameters.trials + 1):
        for name in parameters.claims or CLAIMS:
            for system in parameters.systems:
                with Crew(address, parameters.cache, system, parameters.placement) as crew:
                    try:
                        fault, again = CLAIMS[name](crew, index)
                    except MemberFailed as error:
                        fault, again = str(error), 0
                trials.append(Trial(name, system, index, fault, again))
                on_trial(trials[-1])
    return trials
