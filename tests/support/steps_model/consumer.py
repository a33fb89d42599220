"""A consumer: it carries out what passes ask for, one line at a time. It may die between any two."""

from __future__ import annotations

import random
from typing import Any

from ..model.shard import ModelShard
from .actions import (
    UNCONFIRMED,
    Ack,
    Action,
    Answered,
    Began,
    Call,
    Check,
    Event,
    Facts,
    Lost,
    Nack,
    Note,
    Raised,
    Release,
    Returned,
)
from .declared import App, Step
from .ledger import Ledger
from .passes import Pass, begin, next_action, stopped
from .rules import Rules
from .shard import Claim, Record, Shard, token_text
from .truth import Run, Truth

MOST = 2
"""How many messages of a group are claimed together."""


class Died(Exception):
    """The process ended: what it knew is gone."""


class Consumer:
    """One process with one version of the app."""

    def __init__(self, rng: random.Random, shard: Shard, truth: Truth, app: App, rules: Rules, moods: Any) -> None:
        self.rng, self.shard, self.truth, self.app, self.rules, self.moods = rng, shard, truth, app, rules, moods
        self.claim: Claim | None = None
        self.group = ""
        self.place = 0
        self.state: Pass | None = None
        self.action: Action | None = None
        self.heard: Event | None = None
        """What came of the action, before the pass hears it."""
        self.run: Run | None = None
        self.acks: list[tuple[Record, Ack]] = []
        """Acknowledgements on their way."""
        self.serial = 0
        self.is_stopping = False
        self.late: list[tuple[int, Record, int, str, Note]] = []
        """Copies of notes that the network still holds."""

    @property
    def record(self) -> Record:
        assert self.claim is not None
        return self.claim.records[self.place]

    @property
    def uid(self) -> int:
        return self.record.uid

    @property
    def is_valid(self) -> bool:
        claim = self.claim  # the truth, also for a broken shard
        return claim is not None and ModelShard.holds(self.shard, self.group, token_text(claim.token))

    def died(self) -> None:
        for record in self.claim.records[: self.place + 1] if self.claim else ():
            self.truth.disturbed.add(record.uid)

    def stop(self) -> None:
        """A stop signal: the pass in progress ends between two steps."""
        self.is_stopping = True
        if self.state is not None:
            self.state = stopped(self.state)

    # -- one line -------------------------------------------------------------------------------------------------

    def turn(self, *, faults: frozenset[str] = frozenset()) -> None:
        """Do the next line. `faults`: what goes wrong in it: "ack refused", "repeat", "unconfirmed"."""
        if self.claim is None:
            self._claim()
        elif self.heard is not None:
            self._hear(self.heard)
        elif isinstance(self.action, Call):
            self._call(self.action)
        elif isinstance(self.action, Check):
            self.truth.checked.add((self.uid, self.action.step))
            self.heard = self.moods.check(self.rng, self.app, self.uid, self.action.step)
            self._checked(self.action.step, self.heard)
        elif isinstance(self.action, Note):
            self._note(self.action, faults)
        elif isinstance(self.action, Ack):
            self.acks.append((self.record, self.action))
            self._next()
        elif isinstance(self.action, Nack):
            self._nack(self.action, faults)
        elif isinstance(self.action, (Release, Lost)):
            self._release()

    def _claim(self) -> None:
        due = self.shard.due()
        if not due:
            return
        self.group = self.rng.choice(sorted(due))
        was_held = self.group in self.shard.leases
        self.claim = self.shard.claim_group(self.group, MOST)
        if self.claim is None:
            return
        if was_held:
            self.truth.claimed(self.claim.records[0].uid, self.app.max_attempts)
            self.truth.disturbed |= {record.uid for record in self.shard.records(self.group)}
        self.place = 0
        self._begin()

    def _begin(self) -> None:
        assert self.claim is not None
        record, told = self.record, self.claim.told if self.place == 0 else None
        facts = Facts(
            record.id, record.group, record.stamp, record.kind, self.claim.token, record.unanswered,
            given_up=record.fate, given_up_as=self.moods.fates.get(record.fate, "park"),
            outages=told.count("outages") if told else 0, counts_outage=2,
            has_waited=bool(told and told.count("missing") >= 3),
        )  # fmt: skip
        self.serial = record.serial
        self.state = begin(self.app, facts, record.ledger, self.rules)
        if self.is_stopping:
            self.state = stopped(self.state)
        self.state, self.action = next_action(self.state, Began())

    def _hear(self, event: Event) -> None:
        assert self.state is not None
        if self.run is not None:
            self.run.is_over = True
            self.run.error = event.error if isinstance(event, Raised) else ""
        self.run = self.heard = None
        self.state, self.action = next_action(self.state, event)

    # -- what a pass asks for -------------------------------------------------------------------------------------

    def _step(self, name: str) -> Step:
        return next(step for step in self.app.steps(self.record.kind) if step.name == name)

    def _call(self, call: Call) -> None:
        assert self.claim is not None
        event, has_effect = self.moods.call(self.rng, call.step)
        step = self._step(call.step)
        if event == Raised("declined") and not step.once:
            event = Raised("error")  # only a `once` step declares such errors
        if self.is_valid:  # else the lease was lost before: its effect may overlap, `step.token` fences it
            result = event.result if isinstance(event, Returned) else None
            run = Run(call.key, step.once or call.is_once, has_effect, self.claim.token, result)
            self.run = self.truth.entered(self.uid, step, call, run)
            if step.once:
                self._is_alone(f"step {step.name}")
        if isinstance(event, Raised) and event.error == "death":
            raise Died
        self.heard = event

    def _is_alone(self, what: str) -> None:
        """The messages before this one are gone from the server."""
        assert self.claim is not None
        if any(map(self.shard.is_there, self.claim.records[: self.place])):
            self.truth.wrong(f"order: {what} of message {self.uid} came while the message before it was still there")

    def _checked(self, step: str, event: Event) -> None:
        if isinstance(event, Raised) and event.error == "death":
            raise Died
        if isinstance(event, Returned) and self.is_valid:
            if event.result is None:
                self.truth.nothing_happened(self.uid, step)
            else:
                assert self.claim is not None
                self.truth.found[self.uid, step] = self.claim.token, event.result

    def _send_acks(self, faults: frozenset[str]) -> str:
        """The member of the last one, which the call behind them names."""
        assert self.claim is not None
        for record, ack in self.acks if "ack refused" not in faults else ():
            if self.shard.acked(self.claim.token, record):
                self.truth.acked(record.uid, self.app, record.kind, ack, self.claim.token)
        return self.acks[-1][0].member if self.acks else ""

    def _note(self, note: Note, faults: frozenset[str]) -> None:
        assert self.claim is not None
        self.serial += 1
        sent = self.claim.token, self.record, self.serial
        code = self.shard.noted(*sent, self._send_acks(faults), note)
        if code == -2:
            code = self.shard.noted(*sent, self._send_acks(frozenset()), note)
        if "repeat" in faults:
            self.late.append((*sent, "", note))
        self.acks.clear()
        if code == 1 and self.is_valid:
            self.truth.written(self.uid, self.app, self.record.kind, self.claim.token)
        if code == 1 and note.start and "unconfirmed" in faults:
            self.truth.unconfirmed.add((self.uid, note.start, self.claim.token))
            code = UNCONFIRMED
        self.heard = Answered(code)

    def _nack(self, nack: Nack, faults: frozenset[str]) -> None:
        assert self.claim is not None
        was_valid = self.is_valid
        sent = self.claim.token, self.record, self.serial + 1
        code = self.shard.nacked(*sent, self._send_acks(faults), nack)
        if code == -2:
            code = self.shard.nacked(*sent, self._send_acks(frozenset()), nack)
        if code == 1 and was_valid:
            self._is_alone("the failure")
            if not nack.is_missing:  # it is released as it was
                self.truth.written(self.uid, self.app, self.record.kind, self.claim.token)
            self.truth.nacked(self.uid, nack, self.app, self.record.kind, self.claim.token)
        self._end(is_disturbed=code != 1)

    def _release(self) -> None:
        assert self.claim is not None
        self._send_acks(frozenset())
        self.shard.release(self.group, self.claim.token)
        self._end(is_disturbed=isinstance(self.action, Lost))

    def _next(self) -> None:
        assert self.claim is not None
        if self.place + 1 < len(self.claim.records) and not self.is_stopping:
            self.place += 1
            self._begin()
        else:
            self._release()

    def _end(self, *, is_disturbed: bool) -> None:
        if is_disturbed:
            self.truth.disturbed.add(self.uid)
        self.acks.clear()
        self.claim = self.state = self.action = self.heard = None
        self.is_stopping = False


def answered(rules: Rules, record: Record, answers: dict[str, Any], who: str = "ann") -> Ledger:
    """The ledger after what a person said: a result for `--done`, None for `--again`."""
    ledger = record.ledger or Ledger(record.stamp)
    for name, result in answers.items():
        entry = ledger.get(name)
        assert entry is not None
        ledger = ledger.put(rules.again(entry) if result is None else rules.done_by(entry, who, result))
    return ledger
