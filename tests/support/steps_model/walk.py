"""Walks: two consumers, producers, persons and a network, one line of one of them at a time; the truth judges.

Every choice comes from one random.Random, so a walk repeats by its seed, and hypothesis can search and shrink.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from .consumer import Consumer, Died, answered
from .ledger import LedgerError
from .moods import KINDS, Moods
from .rules import Rules
from .shard import Record, Shard, Told
from .truth import Truth

LINES, LAST_LINES = 220, 700
OF_A_LINE = ("repeat", "ack refused", "unconfirmed")
"""Faults that hit what a consumer does in its line."""
GROUPS, IDS = ("ann", "bob"), ("a", "b", "c")


class Walk:
    """One walk; `problems` says what was wrong, in words."""

    def __init__(
        self,
        rng: random.Random,
        *,
        rules: Rules | None = None,
        shard: Shard | None = None,
        plot: Mapping[int, str] | None = None,
    ) -> None:
        self.rng, self.shard, self.rules, self.line = rng, shard or Shard(), rules or Rules(), 0
        self.plot = plot
        """What goes wrong at which line, and nothing else; None to leave it to chance."""
        self.truth = Truth()
        self.moods = Moods.chosen(rng, self.truth)
        self.consumers = [self._started(), self._started()]
        self.looks: list[tuple[Record, Told, dict[str, Any]]] = []
        """What persons saw, and the answers that they are going to give."""
        self.late: list[tuple[Any, ...]] = []
        self.uids = 0

    @property
    def problems(self) -> list[str]:
        return self.truth.problems

    def run(self) -> list[str]:
        for _ in range(3):
            self._append()
        for self.line in range(LINES):
            self._line()
            if self.problems:
                return self.problems
        self._settle()
        return self.problems

    def _started(self) -> Consumer:
        return Consumer(self.rng, self.shard, self.truth, self.rng.choice(self.moods.versions), self.rules, self.moods)

    def _line(self) -> None:
        self.shard.now += 1
        for name in self.moods.rates:
            if name not in OF_A_LINE and self._happens(name):
                self._happen(name)
        if self.rng.random() < 0.06:
            self._append()
        self._turn(self.rng.randrange(2))

    def _happens(self, name: str) -> bool:
        if self.plot is not None:
            return self.plot.get(self.line) == name
        return self.rng.random() < self.moods.rates[name]

    def _turn(self, which: int) -> None:
        faults = frozenset(name for name in OF_A_LINE if self._happens(name))
        try:
            self.consumers[which].turn(faults=faults)
        except Died:
            self._die(which)

    def _die(self, which: int) -> None:
        self.consumers[which].died()
        self.late += self.consumers[which].late
        self.consumers[which] = self._started()

    # -- what may happen ------------------------------------------------------------------------------------------

    def _happen(self, name: str) -> None:
        which = self.rng.randrange(2)
        records = self.shard.everything()
        acts: dict[str, Callable[[], None]] = {
            "death": lambda: self._die(which),
            "lease ends": self._end_lease,
            "late note": self._late_note,
            "stop": self.consumers[which].stop,
            "deploy": lambda: self._deploy(which),
            "look": self._look,
            "answer": self._answer,
            "age": self._age,
            "forget": self.shard.forget,
        }
        if name in acts:
            acts[name]()
        elif records:
            self._touch(name, self.rng.choice(records))

    def _touch(self, name: str, record: Record) -> None:
        """Somebody changes a message that waits, or is being handled."""
        shard, rng = self.shard, self.rng
        if name == "reschedule":
            shard.reschedule(record, rng.choice((0, 0, 5, 30)))
            self.truth.disturbed.add(record.uid)
        elif name == "cancel":
            if shard.cancel(record):
                self.truth.gone(record.uid, name)
        elif name == "replace":
            if shard.append_record(self._new(record), is_replacement=True):
                self.truth.gone(record.uid, name)
        elif name == "fate":
            shard.fated(record, rng.choice(sorted(self.moods.fates)))

    def _new(self, like: Record) -> Record:
        self.uids += 1
        return replace(like, uid=self.uids, fate="")

    def _append(self) -> None:
        rng, now = self.rng, self.shard.now
        if sum(map(len, self.shard.orders.values())) >= 5:
            return
        group = rng.choice(GROUPS)
        due = rng.choice((0, 0, 0, now + 10))
        record = Record(f"{group[0]}{rng.choice(IDS)}", group, rng.choice(KINDS), rng.randrange(20), due=due)
        self.shard.append_record(self._new(record))

    def _end_lease(self) -> None:
        if self.shard.leases:
            self.shard.schedule[self.rng.choice(sorted(self.shard.leases))] = self.shard.now_us

    def _late_note(self) -> None:
        """The network delivers a copy of a note that was repeated meanwhile."""
        late = [*self.late, *(one for consumer in self.consumers for one in consumer.late)]
        if late:
            self.shard.noted(*self.rng.choice(late))

    def _deploy(self, which: int) -> None:
        """The process ends between two passes; another version may follow it."""
        if self.consumers[which].claim is None:
            self.late += self.consumers[which].late
            self.consumers[which] = self._started()

    # -- persons --------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """A person looks at what is parked or set aside, asks the bank, and makes up an answer."""
        if stuck := list(self.shard.stuck()):
            record, told = self.rng.choice(stuck)
            self.looks.append((record, told, self._answers(record, told)))

    def _answers(self, record: Record, told: Told) -> dict[str, Any]:
        """For each question, and each step that lost its result or that no version has: done, or None for again."""
        answers: dict[str, Any] = {}
        for entry in record.ledger.entries if record.ledger else ():
            has_effect = self.truth.effect(record.uid, entry.name)
            is_asked = entry.name in told.failure.questions
            is_left = entry.state == "left" and not has_effect and self.rng.random() < 0.3
            if is_asked or is_left:
                answers[entry.name] = {"said": entry.name} if has_effect else None
            elif (entry.state == "done" and entry.error) or entry.name in told.failure.missing:
                answers[entry.name] = {"said": entry.name}
        return answers if self.moods.is_calm or self.rng.random() < 0.8 else {}

    def _answer(self) -> None:
        if self.looks:
            self._act(*self.looks.pop(self.rng.randrange(len(self.looks))))

    def _act(self, record: Record, told: Told, answers: dict[str, Any]) -> None:
        """Resume or redrive, as it was seen; nobody else has answered meanwhile, or nothing happens."""
        try:
            ledger = answered(self.rules, record, answers)
        except LedgerError as error:
            self.truth.wrong(f"refused: {error}")
            return
        shard = self.shard
        if shard.letter(record) in shard.letters:
            is_done = shard.redriven(record, told, ledger if record.ledger or answers else None)
        elif not self.moods.is_calm and self.rng.random() < 0.1:
            is_done, answers = False, {}
            shard.set_aside(record, told)
        else:
            is_done = shard.resumed(record, told, ledger if record.ledger or answers else None)
        if is_done:
            self.truth.let_go_on(record.uid)
        for name, result in answers.items() if is_done else ():
            if result is None:
                self.truth.say_again(record.uid, name)
            else:
                self.truth.say_done(record.uid, name, result)

    def _age(self) -> None:
        """`dead_window` removes a letter."""
        letters = [one for one in self.shard.stuck() if self.shard.letter(one[0]) in self.shard.letters]
        if letters:
            record, told = self.rng.choice(letters)
            if self.shard.age_out(record, told):
                self.truth.gone(record.uid, "age")

    # -- the end ---------------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """All goes well from now on, and persons answer: nothing may stand for ever."""
        self.moods.is_calm = True
        self.plot = {}
        for line in range(LAST_LINES):
            self.shard.now += 20
            self._turn(line % 2)
            if line % 5 == 0:
                for which in range(2):
                    self._deploy(which)
                if stuck := list(self.shard.stuck()):
                    record, told = self.rng.choice(stuck)
                    self._act(record, told, self._answers(record, told))
            if self.problems or not (self.shard.letters or self.shard.orders):
                return
        self.truth.wrong(f"for ever: {self.shard.everything() or list(self.shard.stuck())} is still there")
