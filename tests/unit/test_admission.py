"""What is not tried: the order of the rules, and that `consume` and a loop over `claim` do the same."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NamedTuple, get_args

import pytest

import sequencer.lease
from sequencer.calls.call import Call
from sequencer.calls.claim import Claimed, LeasedGroup
from sequencer.calls.net_protocol import Answer
from sequencer.calls.settle import Acked, Nacked
from sequencer.consume.emitter import EventEmitter
from sequencer.drain.effects import Handle, Locked, Run, SettleAndClaim
from sequencer.drain.held import Held
from sequencer.drain.held_group import HeldGroup
from sequencer.drain.outcome import event_of, failed_with, refusal_of
from sequencer.drain.protocol import drain
from sequencer.drain.steps.actions import Returned
from sequencer.drain.steps.declared import Steps, new_step
from sequencer.drain.steps.runner import StepRunner
from sequencer.errors import LeaseExpired, Undecodable
from sequencer.lease import Lease, LeaseSession
from sequencer.settings.options import ConsumerOptions, OnFailure, QueueOptions
from sequencer.settings.policy import OnLate
from sequencer.store.failure import decode_failure
from sequencer.store.keys import shard_keys
from sequencer.values.message import Message

KEYS = shard_keys("n", "q", 0)
NOW_S = 1_000.0


class Case(NamedTuple):
    messages: int
    late: bool
    redriven: bool
    is_undecodable: bool
    attempt: int
    on_late: OnLate
    on_failure: OnFailure
    max_attempts: int

    def queue(self) -> QueueOptions:
        return QueueOptions(queue="q", max_attempts=self.max_attempts, on_failure=self.on_failure)

    def leased(self) -> LeasedGroup:
        messages = [self._message(n, self.messages - 1) for n in range(self.messages)]
        members = [f"{n:016}{n}" for n in range(self.messages)]
        reason, scores = "no JSON" if self.is_undecodable else "", [f"{n}.0" for n in range(self.messages)]
        return LeasedGroup("g", ("g",), "17", "other", messages, members, scores, "9.0", self.on_late, reason)

    def _message(self, n: int, last: int) -> Message:
        attempt, late, redriven = (self.attempt, self.late, self.redriven) if n == last else (1, False, False)
        return Message(str(n), ("g",), float(n), "body", {}, attempt, 17, 1.0, "q", n, late, redriven)


def cases() -> Iterator[Case]:
    flags = itertools.product((1, 2), (False, True), (False, True), (False, True))
    for (count, late, redriven, is_undecodable), attempt in itertools.product(flags, (1, 2, 3)):
        for on_late in get_args(OnLate):
            for on_failure in get_args(OnFailure):
                for most in (1, 2):
                    yield Case(count, late, redriven, is_undecodable, attempt, on_late, on_failure, most)


Outcome = tuple[list[str], list[Call[Any]]]
"""The ids that were given to the handler, and what the server was told of the message that failed."""


def consumed(case: Case, declared: Steps | None = None, **named: Any) -> Outcome:
    held, given = Held([KEYS], 60.0), list[str]()
    clock: Any = {"clock": lambda: 0.0, "wall": lambda: NOW_S, "random": lambda: 0.5}
    queue = replace(case.queue(), **named)
    effects = drain(StepRunner(held, queue, declared, "me", **clock), ConsumerOptions())
    assert isinstance(next(effects), SettleAndClaim)
    groups = [case.leased()]
    held.take(0, groups, 0.0, 0.0)
    effect: Any = effects.send(Claimed(groups))
    while not isinstance(effect, SettleAndClaim):
        if isinstance(effect, Handle | Run):
            given.append(effect.message.id)
        answer = Returned(None) if isinstance(effect, Run) else None
        effect = effects.send(effect.act() if isinstance(effect, Locked) else answer)
    sending = held.outgoing()
    nacks = [call for call in sending.calls if call.script == "nack"] if sending else []
    return given, [call._replace(args=(*call.args[:-3], "", *call.args[-2:])) for call in nacks]


def looped(case: Case) -> Outcome:
    net = FakeNet()
    session: Any = SimpleNamespace(net=net, options=case.queue())
    groups = LeaseSession(session, KEYS, ConsumerOptions(), "me", EventEmitter("q"))
    groups.held, groups.deadline = [HeldGroup(case.leased())], math.inf
    lease, given = Lease(groups), []
    for message in lease:
        given.append(message.id)
        lease.ack(message)
    return given, [call for call in net.calls if call.script == "nack"]


class FakeNet:
    def __init__(self) -> None:
        self.calls: list[Call[Any]] = []

    async def ask(self, call: Call[Any]) -> Answer[Any]:
        self.calls.append(call)
        return Answer(Nacked(True) if call.script == "nack" else Acked([], False))


@pytest.mark.parametrize(
    ("late", "redriven", "is_undecodable", "attempt", "said"),
    [
        (True, False, True, 9, "TooLate"),
        (True, True, True, 9, "Undecodable"),
        (False, False, True, 9, "Undecodable"),
        (True, True, False, 9, "LeaseExpired"),
        (True, True, False, 1, "NoneType"),
    ],
)
def test_the_first_rule_that_fits_says_why(
    late: bool, redriven: bool, is_undecodable: bool, attempt: int, said: str
) -> None:
    case = Case(2, late, redriven, is_undecodable, attempt, "drop", "park", 3)
    assert type(refusal_of(case.queue(), case.leased(), 1)).__name__ == said
    assert refusal_of(case.queue(), case.leased(), 0) is None


def test_attempts_above_the_limit_are_told_as_they_are() -> None:
    case = Case(1, False, False, False, 5, "handle", "park", 2)
    queue, leased = case.queue(), case.leased()
    refusal = refusal_of(queue, leased, 0)
    assert isinstance(refusal, LeaseExpired)
    for error, attempt in ((ValueError("no"), 5), (refusal, 4)):
        one = failed_with(queue, leased.messages[0], error, owner="me", at=1, random=0)
        told = event_of(queue, "me", one).fields
        assert (told["attempt"], told["attempts"]) == (attempt, 2)


def test_what_nobody_can_read_was_not_tried() -> None:
    case = Case(1, False, False, True, 1, "handle", "park", 2)
    one = failed_with(case.queue(), case.leased().messages[0], Undecodable("no JSON"), owner="me", at=1, random=0)
    assert one.failure.attempt == 0
    assert "attempts" not in event_of(case.queue(), "me", one).fields


@pytest.mark.slow
def test_both_ways_to_consume_end_every_message_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequencer.lease, "time", SimpleNamespace(time=lambda: NOW_S, monotonic=lambda: 0.0))
    for case in cases():
        assert consumed(case) == looped(case), case


def end_of(outcome: Outcome) -> tuple[list[str], list[tuple[Any, ...]]]:
    """What was given, and how the message that failed ended: the delay, the ending and the error."""
    given, nacks = outcome
    kept = [call.args[6] for call in nacks]
    errors = [decode_failure(one if isinstance(one, bytes) else one.encode())[0].type for one in kept]
    return given, [(*call.args[4:6], error) for call, error in zip(nacks, errors, strict=True)]


@pytest.mark.slow
@pytest.mark.parametrize("named", [{}, {"dead_letter_on": ("Undecodable", "LeaseExpired")}])
def test_a_message_with_steps_is_refused_as_a_plain_one_is(named: dict[str, Any]) -> None:
    declared = Steps()
    declared.add(new_step(lambda message: None, name="s"))
    refused = 0
    for case in cases():
        plain = end_of(consumed(case, **named))
        assert end_of(consumed(case, declared, **named)) == plain, case
        refused += bool(plain[1])
    assert refused > 100
