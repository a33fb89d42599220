"""Judges a history: order, exclusion, loss, invention, duplicates, recovery, and whether the faults really happened.

Time grows linearly with the history, but for sorting; nothing is searched. Within a group:

  - Order: X may not begin before M has succeeded, if M lies below X by (score, stamp) and was there when X's lease was
    taken: its stamp lies below that token, both being ticks of the shard's clock. A redriven M was away: it is excused.
  - Exclusion: two runs never overlap, nor does a token go back, unless a fault touched the process of the older one
    meanwhile: then it lost its lease, and it is the token that tells the two apart. One token never has two processes.
  - Duplicates: of two runs of a message that both succeeded, a fault touched the process of the older token while it
    ran, or within `ack_s` of its end; or the server. So without faults there are none.

Over all: what was appended was handled, or is among `remaining` or `pending`; nothing was handled that nobody appended;
after `healed` everything was done within `recover_s`; and each kind of fault that was `expected` took effect.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate

from .history import Event

ACK_S = 0.1
"""An ack leaves within 10 ms of running time; a process on a busy machine may stand still for several times that."""
MAX_CASES = 5
STORED = ("stored", "duplicate")


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a history shows. `cases` names the first few problems in words."""

    messages: int
    """Messages that a producer was told are stored."""
    runs: int
    """Handler runs that ended well."""
    losses: int
    inventions: int
    order_violations: int
    overlaps: int
    tokens_back: int
    duplicates: int
    duplicates_allowed: int
    """Runs whose message the faults allow to be handled again."""
    unexplained: int
    """Duplicates that no fault explains."""
    recovery_s: float | None
    """From `healed` to `drained`; None when the history does not have both."""
    effects: Mapping[str, int]
    """Kind -> how often, of all faults and of what was seen of them."""
    missing: Collection[str]
    """Kinds that were expected and did not take effect."""
    cases: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        """No violation of any kind, and the faults were real."""
        wrong = self.losses + self.inventions + self.disorder + self.unexplained
        return not (wrong or self.missing or self.cases)

    @property
    def disorder(self) -> int:
        """Violations of order and of exclusion together."""
        return self.order_violations + self.overlaps + self.tokens_back


class FaultSpans:
    """The faults of a history by process; "" stands for all."""

    def __init__(self, events: Iterable[Event]) -> None:
        spans: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
        for event in events:
            if event.what == "fault":
                spans[event.who].append((event.at, max(event.at, event.until)))
        self._spans: dict[str, tuple[list[float], list[float]]] = {}
        for who, some in spans.items():
            starts, ends = zip(*sorted(some), strict=True)
            self._spans[who] = list(starts), list(accumulate(ends, max))

    def touches(self, who: str, began: float, ended: float) -> bool:
        """Whether a fault touched this process, or all, between these times."""
        for name in (who, ""):
            starts, ends = self._spans.get(name, ([], []))
            before = bisect_right(starts, ended)
            if before and ends[before - 1] >= began:
                return True
        return False


@dataclass(slots=True)
class GroupRuns:
    """What a judge knows of one group."""

    tops: list[tuple[int, tuple[float, int], str]] = field(default_factory=list)
    """Token, place and id of runs that began, by token upwards and by place downwards: no later one passed them."""
    open: dict[str, Event] = field(default_factory=dict)
    """Process -> the run that it began and did not end."""
    newest: Event | None = None
    """The run with the greatest token that began."""

    def add_top(self, run: Event) -> None:
        place = (run.score, run.stamp)
        at = bisect_left(self.tops, run.token, key=lambda top: top[0])
        if at < len(self.tops) and self.tops[at][1] >= place:
            return  # under this token or a newer one, something at least as far behind began
        end = at + (at < len(self.tops) and self.tops[at][0] == run.token)
        while at and self.tops[at - 1][1] <= place:
            at -= 1
        self.tops[at:end] = [(run.token, place, run.id)]

    def passed_by(self, run: Event, since: int | None = None) -> str | None:
        """The id of a message behind this one that began before it ended, though this one was there: under a lease
        newer than the token `since`, else than the arrival of this one.
        """
        first = bisect_right(self.tops, run.stamp if since is None else since, key=lambda top: top[0])
        if first < len(self.tops) and self.tops[first][1] > (run.score, run.stamp):
            return self.tops[first][2]
        return None


class _Judge:
    def __init__(self, events: list[Event], ack_s: float, decided: set[tuple[str, str]]) -> None:
        self.fault_spans, self.ack_s, self.away = FaultSpans(events), ack_s, decided
        self.asked: dict[tuple[str, str], float] = {}
        """Message -> the score that its producer gave it."""
        self.left: dict[tuple[str, str], tuple[int, float, float]] = {}
        """Group and process -> its newest token there, when it was last seen under an older one, and last seen."""
        self.groups: defaultdict[str, GroupRuns] = defaultdict(GroupRuns)
        self.counts: Counter[str] = Counter()
        self.cases: list[str] = []
        self.intended: set[tuple[str, str]] = set()
        self.stored: set[tuple[str, str]] = set()
        self.done: dict[tuple[str, str], tuple[Event, float]] = {}
        """Message -> its last run that ended well, and when that was."""
        self.decided: dict[tuple[str, str], int] = {}
        """Message -> the greatest token under which it failed."""
        self.places: dict[tuple[str, str], Event] = {}
        """Message -> a run of it, which shows its score and stamp."""
        self.unplaced: set[tuple[str, str]] = set()
        """Messages that ended well under a token older than one under which they failed: their order is judged by what
        became of them then."""
        self.ended: dict[tuple[str, str], int] = {}
        """Message -> the greatest token under which it ended well."""
        self.appending: dict[tuple[str, str], float] = {}
        """Message -> when somebody first set out to append it: no lease on it is older."""
        self.effects: Counter[str] = Counter()
        self.began: dict[tuple[str, str, int], Event] = {}

    def wrong(self, kind: str, text: str) -> None:
        self.counts[kind] += 1
        if len(self.cases) < MAX_CASES:
            self.cases.append(f"{kind}: {text}")

    def take(self, event: Event) -> None:
        name = (event.group, event.id)
        if event.what == "appending":
            self.intended.add(name)
            self.appending.setdefault(name, event.at)
            if event.score:
                self.asked[name] = event.score
        elif event.what == "appended":
            if event.kind in STORED:
                self.stored.add(name)
            if event.kind == "duplicate":
                self.effects["duplicate refused"] += 1
        elif event.what in ("refused", "unknown", "fault", "seen"):
            self.effects[event.kind] += 1
        elif event.what == "begun":
            self.begin(event)
        elif event.what in ("ended", "failed"):
            self.see(event)
            self.groups[event.group].open.pop(event.who, None)
            if event.what == "ended":
                self.end(event)
            else:
                self.decided[name] = max(event.token, self.decided.get(name, 0))

    def begin(self, run: Event) -> None:
        group = self.groups[run.group]
        if (run.group, run.id) not in self.intended:
            self.wrong("invention", f"group {run.group}: {run.id} was handled, and never appended")
        asked = self.asked.get((run.group, run.id), run.score)
        if asked != run.score:
            self.wrong(
                "altered", f"group {run.group}: {run.id} was appended with score {asked}, handled with {run.score}"
            )
        self.see(run)
        group.open.pop(run.who, None)
        for other in list(group.open.values()):
            self.meet(group, other, run)
        newest = group.newest
        if newest and run.token < newest.token and not self.fault_spans.touches(run.who, self.since(run), run.at):
            self.wrong("token back", f"group {run.group}: {run.id} began under {run.token} after {newest.token}")
        if newest is None or run.token > newest.token:
            group.newest = run
        elif run.token == newest.token and run.who != newest.who:
            self.wrong("overlap", f"group {run.group}: token {run.token} has two processes, {newest.who} and {run.who}")
        group.add_top(run)
        self.places[run.group, run.id] = run
        group.open[run.who] = run
        self.began[run.group, run.who, run.token] = run

    def see(self, run: Event) -> None:
        key = run.group, run.who
        token, before, last = self.left.get(key, (run.token, -math.inf, -math.inf))
        self.left[key] = (run.token, last, run.at) if run.token > token else (token, before, run.at)

    def since(self, run: Event) -> float:
        """A time before which this lease can't have been taken: its process was at work here under an older one, or
        nobody had appended its message.
        """
        return max(self.left[run.group, run.who][1], self.appending.get((run.group, run.id), -math.inf))

    def meet(self, group: GroupRuns, other: Event, run: Event) -> None:
        """A run begins while another of its group has not ended; it may be that the other's process is dead."""
        older = other if other.token <= run.token else run
        if not self.fault_spans.touches(older.who, older.at if older is other else self.since(run), run.at):
            one, two = (f"{it.id} (token {it.token}, by {it.who})" for it in (run, other))
            self.wrong("overlap", f"group {run.group}: {one} began while {two} ran")
            del group.open[other.who]

    def end(self, run: Event) -> None:
        name, began = (run.group, run.id), self.began.get((run.group, run.who, run.token), run)
        self.counts["run"] += 1
        start = began.at if began.id == run.id else run.at
        known = self.done.get(name)
        if known is not None:
            self.counts["rerun"] += 1
            if not self.is_exposed(*min(known, (run, start), key=lambda it: it[0].token)):
                self.wrong(
                    "unexplained duplicate",
                    f"group {run.group}: {run.id} was handled by {known[0].who} at {known[0].at:.3f} and again by"
                    f" {run.who} at {run.at:.3f}, and no fault explains it",
                )
        if name in self.away:  # given up: the group was let pass
            pass
        elif known is None and run.token < self.decided.get(name, 0):
            self.unplaced.add(name)
        elif known is None or name in self.unplaced:
            self.unplaced.discard(name)
            if not run.redriven and (behind := self.groups[run.group].passed_by(run)):
                self.wrong(
                    "order", f"group {run.group}: {behind} began before {run.id}, which lies before it, had succeeded"
                )
        self.done[name] = run, start
        self.ended[name] = max(run.token, self.ended.get(name, 0))
        self.counts["allowed"] += self.is_exposed(run, start)

    def wait(self, name: tuple[str, str]) -> None:
        """A message is still in the queue at the end: it was not handled, nor anything behind it."""
        run, known = self.kept(name, "in the queue"), self.places.get(name)
        if run is not None and not run.redriven:
            behind = self.groups[name[0]].passed_by(run, self.ended[name])
        elif run is None and known and not known.redriven:
            behind = self.groups[name[0]].passed_by(known)
        else:
            return
        if behind:
            self.wrong("order", f"group {name[0]}: {behind} began, and {name[1]}, which lies before it, still waits")

    def kept(self, name: tuple[str, str], where: str) -> Event | None:
        """A message is there at the end: somebody appended it, and no run of it ended well, or a fault came between
        that and its acknowledgement. Such a run.
        """
        run, start = self.done.get(name, (None, 0.0))
        if name not in self.intended:
            self.wrong("invention", f"group {name[0]}: {name[1]} is {where}, and was never appended")
        if run is not None and not self.is_exposed(run, start):
            self.wrong("order", f"group {name[0]}: {name[1]} was handled, and is still {where}")
            return None
        return run

    def is_exposed(self, run: Event, start: float) -> bool:
        return self.fault_spans.touches(run.who, start, run.at + self.ack_s)


def judge(
    events: Iterable[Event],
    *,
    ack_s: float = ACK_S,
    recover_s: float | None = None,
    remaining: Iterable[tuple[str, str]] = (),
    pending: Iterable[tuple[str, str]] = (),
    dead: Iterable[tuple[str, str]] = (),
    expected: Collection[str] = (),
) -> Judgement:
    """What these events show. Messages as pairs of a group, as `encode_group` gives it, and an id.

    `remaining`: messages that are not handled and not lost: given up (dead, dropped, skipped), or perhaps so.
    `pending`: those known to be still in the queue: what lies behind one that a handler has seen may not have begun.
    `dead`: those known to be dead letters. What is there and was handled, with no fault that explains it, is wrong.
    `ack_s`: how long after its end a run may not have been acknowledged yet. `recover_s`: the longest time from
    `healed` to `drained`. `expected`: kinds of faults and effects that must have happened. Where either of these two is
    asked for, a history without a stored message is wrong: it shows nothing.
    """
    ordered = sorted(events, key=lambda event: event.at)
    letters, waiting = set(dead), set(pending)
    away = set(remaining) | letters
    state, times = _Judge(ordered, ack_s, away), dict[str, float]()
    for event in ordered:
        state.take(event)
        if event.what in ("healed", "drained"):
            times[event.what] = event.at
    for name in sorted(waiting):
        state.wait(name)
    for name in sorted(letters):
        state.kept(name, "a dead letter")
    if not state.stored and (recover_s is not None or expected):
        state.wrong("nothing", "no message was stored, so nothing was shown")
    for name in sorted(state.stored - state.done.keys() - away - waiting):
        state.wrong("loss", f"group {name[0]}: {name[1]} was stored, and never handled")
    recovery = times["drained"] - times["healed"] if len(times) == 2 else None
    if recover_s is not None and (recovery is None or not 0 <= recovery <= recover_s):
        said = "not drained" if recovery is None else f"drained after {recovery:.3f} s"
        state.wrong("stuck", f"{said}; {recover_s:g} s after healing is the most")
    missing = [kind for kind in expected if not state.effects[kind]]
    counts = state.counts
    return Judgement(
        messages=len(state.stored),
        runs=counts["run"],
        losses=counts["loss"],
        inventions=counts["invention"],
        order_violations=counts["order"],
        overlaps=counts["overlap"],
        tokens_back=counts["token back"],
        duplicates=counts["rerun"],
        duplicates_allowed=counts["allowed"],
        unexplained=counts["unexplained duplicate"],
        recovery_s=recovery,
        effects=dict(state.effects),
        missing=missing,
        cases=[*state.cases, *[f"fault that never took effect: {kind}" for kind in missing]],
    )
