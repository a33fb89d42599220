"""The books of a simulated queue: its groups and messages as they should be, and how a failed message may end."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from sequencer.settings.backoff import Backoff
from sequencer.settings.policy import Policy
from sequencer.store.record import STAMP_DIGITS

from ...support.model.record import Cut, is_newer, without_log
from .scenario import POLICIES, Scenario
from .step_truth import StepTruth

MOST = 10
"""Problems of a seed that are told: one wrong step makes every later one look wrong."""
PAUSED = 9e15
"""The score of a paused group."""
ENDINGS = {"park": "park", "dead_letter": "dead", "drop": "drop"}


@dataclass(slots=True)
class Row:
    """One message."""

    member: str
    score: float
    due_us: int
    content: str
    attempts: int = 0
    redriven: bool = False
    ledger: str = ""
    """As the record keeps it."""


class Ask(NamedTuple):
    """When a group must be visible: at this time exactly, or, where nothing holds it, at the latest."""

    at_us: int
    is_lease: bool


@dataclass(slots=True)
class Book:
    """A group."""

    rows: dict[str, Row] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)
    """Ids that ever came."""
    mark: float = -math.inf
    """The highest score handled; of a sequence, the number that it has come to."""
    blocked_us: float = -math.inf
    """Until when a failure holds it."""
    leased_until_us: float = -math.inf
    was_alone: bool = False
    """Whether the claim of its newest lease took nothing else: its end is then an attempt."""
    is_paused: bool = False

    def pending(self) -> list[Row]:
        return sorted(self.rows.values(), key=lambda row: (row.score, row.member))


class Account:
    """All shards of a seed. `problems` says where the server did not agree."""

    def __init__(self, play: Scenario) -> None:
        self.play, self.policy = play, Policy(**{"watermark_window": 3600.0, **POLICIES[play.policy]})
        self.backoff = Backoff(play.backoff_s, play.backoff_cap_s)
        limit = play.max_attempts
        self.most_attempts = max(2, limit) if play.on_failure == "drop" else limit
        self.books: defaultdict[tuple[str, str], Book] = defaultdict(Book)
        self.paused: set[str] = set()
        """Shards."""
        self.dead: dict[tuple[str, str], Row] = {}
        """Shard and letter -> the message."""
        self.why: dict[tuple[str, str], str] = {}
        """Shard and letter -> the failure that is kept with it."""
        self.redriven: set[tuple[str, str]] = set()
        self.asks: dict[tuple[str, str], Ask] = {}
        self.counts: Counter[tuple[str, str]] = Counter()
        """Shard and name of a figure -> what `stats` should say."""
        self.now_us = self.newest_us = 0
        """What the server's clock shows, and the latest that it has shown; whoever carries commands out sets it."""
        self.problems: list[str] = []
        self.steps = StepTruth(play.steps, play.max_attempts, self.wrong)
        self.steps.is_there = self.is_there

    def wrong(self, text: str) -> None:
        if len(self.problems) < MOST:
            self.problems.append(text)

    def opens_us(self, row: Row) -> int:
        """From when on the message may be handled, whatever is missing before it; 0 for any time."""
        window_us = round(self.policy.reorder_window * 1e6)
        is_held_back = window_us and not row.redriven
        return max(row.due_us, int(row.member[:STAMP_DIGITS]) + window_us if is_held_back else 0)

    def over_us(self, row: Row, mark: float) -> float:
        """From when on the numbers that are missing before it do not hold it; 0 for none missing."""
        if not self.policy.sequence or row.redriven or row.score <= mark + 1:
            return 0
        if self.policy.on_gap == "park":
            return math.inf
        return int(row.member[:STAMP_DIGITS]) + round(self.policy.gap_timeout * 1e6)

    def answered(self, group: str, ask: Ask, visible: float | None, *, is_held: bool) -> None:
        """When the group is visible now."""
        if visible is None:
            self.wrong(f"group {group} is not scheduled")
        elif ask.is_lease and visible != ask.at_us:
            self.wrong(f"the lease of group {group} ends at {visible:.0f}; it was asked for until {ask.at_us}")
        elif not ask.is_lease and visible > ask.at_us and visible != PAUSED and not is_held:
            self.wrong(f"group {group} is looked at by {visible:.0f}, though it has a message from {ask.at_us} on")

    def check_stats(self, prefix: str, stats: dict[str, int]) -> None:
        """What the shard has counted."""
        for name in ("appended", "handled", "redriven", "failed", "dead", "dropped"):
            if stats.get(name, 0) != self.counts[prefix, name]:
                self.wrong(f"stats of {prefix}: {name} is {stats.get(name, 0)}; it was {self.counts[prefix, name]}")

    def check_letters(self, prefix: str, letters: dict[str, bytes]) -> None:
        """The dead letters of the shard: those that should be there, each with its score, failure and content."""
        wanted = {letter: row for (shard, letter), row in self.dead.items() if shard == prefix}
        for letter in sorted(wanted.keys() ^ letters.keys()):
            self.wrong(f"dead letter {letter!r} is {'missing' if letter in wanted else 'there, and should not be'}")
        for letter in wanted.keys() & letters.keys():
            score, failure, record = letters[letter].split(b"\n", 2)
            row, why = wanted[letter], self.why.get((prefix, letter))
            cut = Cut.of(record.decode())
            kept = float(score), without_log(failure.decode(), why) if why else why, cut.ledger, cut.envelope
            if kept != (wanted_now := (row.score, why, row.ledger, row.content)):
                self.wrong(f"dead letter {letter!r} holds {kept}; it should be {wanted_now}")

    def begun(self, group: str, message: Any) -> None:
        """A handler run of this message begins."""
        member = f"{message.stamp:0{STAMP_DIGITS}d}{message.id}"
        most = self.most_attempts + bool(self.play.steps)
        """A step may have attempts left, or a check, where another one has none."""
        if message.attempt > most:
            self.wrong(f"{group}/{message.id} began attempt {message.attempt}; {most} is the most")
        if message.redriven and (group, member) not in self.redriven:
            self.wrong(f"{group}/{message.id} came as redriven, and never was")

    def row(self, prefix: str, group: str, member: str) -> Row | None:
        """This member of a group, if it is there."""
        row = self.books[prefix, group].rows.get(member[STAMP_DIGITS:])
        return row if row is not None and row.member == member else None

    def is_there(self, group: str, member: str) -> bool:
        return any(name == group and self.row(shard, group, member) for shard, name in [*self.books])

    def write(self, group: str, row: Row, token: str, ledger: str, *, by_person: bool = False) -> bool:
        """Whether this ledger is in the record from now on, and was not: one with the same serial or a later one is
        left as it is.
        """
        if not ledger or (row.ledger and not is_newer(ledger, row.ledger)):
            return False
        row.ledger = ledger
        self.steps.written(group, row.member, int(token or 0), ledger, by_person=by_person)
        return True

    def removed(self, prefix: str, group: str, member: str) -> Row | None:
        book, row = self.books[prefix, group], self.row(prefix, group, member)
        if row is None:
            return None
        del book.rows[member[STAMP_DIGITS:]]
        if not book.rows:
            book.blocked_us = book.leased_until_us = -math.inf
            self.asks.pop((prefix, group), None)
        return row

    def check_nack(self, name: str, book: Book, row: Row, args: list[str]) -> None:
        kind, ending, attempt = orjson.loads(args[7])["type"], args[6], row.attempts + 1
        told = ending or args[5]
        if self.play.steps:  # of other endings the steps decide, whose outcomes no script knows
            if kind == "LeaseExpired" and attempt <= self.most_attempts:
                self.wrong(f"{name} ended as {kind} after {row.attempts} leases without an answer")
            return
        tried = attempt - (kind in ("LeaseExpired", "TooLate"))
        if int(args[4]) != tried:
            self.wrong(f"{name} failed with {kind} and counts as tried {args[4]} times; it was {tried}")
        is_late = self.policy.on_late in ("drop", "dead_letter") and not row.redriven and row.score < book.mark
        if (kind == "TooLate") != is_late or (kind == "LeaseExpired" and attempt <= self.most_attempts):
            self.wrong(f"{name}, attempt {attempt}, score {row.score} at watermark {book.mark}, ended as {kind}")
        named = {"TooLate": ENDINGS.get(self.policy.on_late, ""), "SetAside": "dead", "Park": "park"}.get(kind)
        if named is None and attempt >= self.play.max_attempts:
            named = ENDINGS[self.play.on_failure]
        if named is not None:
            if ending != named:
                loss = "loss: " if ending == "drop" else ""
                self.wrong(f"{loss}{name} failed with {kind}, attempt {attempt}: {told}, where {named} was asked")
            return
        low_ms, high_ms = (self.backoff.delay_s(attempt, part) * 1000 for part in (0.0, 1.0))
        is_asked = args[5].isdigit() and low_ms - 1 <= int(args[5]) <= high_ms + 1
        if not is_asked and not (kind == "Retry" and args[5] == "50"):
            loss = "loss: " if ending == "drop" else ""
            self.wrong(f"{loss}{name} failed with {kind}, attempt {attempt}: {told}, where a backoff was asked")


def arrived(word: list[Any], mark: str, content: str, now_us: int) -> Row:
    """The message as it is stored: without a score of its own, it has that of its time, in seconds."""
    stamp, due_us, score = mark[1:], 0, word[2]
    if len(word) > 3:
        due = str(word[3])
        due_us = int(float(due)) + (now_us if due.startswith("+") else 0)
    if score == "":
        digits = f"{due_us:0{STAMP_DIGITS}d}" if due_us else stamp
        score = f"{digits[:10]}.{digits[10:]}"
    return Row(stamp + str(word[1]), float(score), due_us, content)
