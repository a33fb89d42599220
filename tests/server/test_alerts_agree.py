"""Incidents in the server follow the model of their rules; and whoever dies, each is told, normally once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sequencer import calls
from sequencer.calls.alerts import AlertTimes, Condition, Grant
from sequencer.net.link import Link
from sequencer.store.keys import ShardKeys

from ..support.changed_script import changed_script
from ..support.examples import examples
from ..support.shard import at

SETTLE, GAP, AGAIN, HOLD, STALE = 2, 60, 600, 30, 900
"""Seconds, as the walks take them."""


class Offer(NamedTuple):
    """The right to tell a target."""

    kind: str
    what: str
    target: str
    opened: int
    number: int


@dataclass(slots=True)
class To:
    """What a target was told."""

    asked: int
    number: int = 0
    said: str = ""
    """"open" or "resolved", which it took last; "resolving": it may have taken that; "": none of these is known."""
    sent: int = 0
    hold: int = 0


@dataclass(slots=True)
class Record:
    """An incident."""

    opened: int
    seen: int
    limit: int
    quiet: int | None = None
    resolved: int | None = None
    to: dict[str, To] = field(default_factory=dict)

    @property
    def is_done(self) -> bool:
        return self.resolved is not None and all(one.said == "resolved" for one in self.to.values())


class Incidents:
    """All incidents of a queue."""

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}

    def look(
        self,
        now: int,
        seen: Mapping[str, str],
        targets: Sequence[str],
        news: Mapping[str, Collection[str]],
        limit: int = 1,
    ) -> set[Offer]:
        """Somebody with this limit sees these verdicts, by kind, and news, by kind for targets; what that caller may
        tell.
        """
        for record in self.records.values():
            _hold_to(record, now)
        for kind, verdict in seen.items():
            self._take(now, kind, verdict, limit)
        offers: set[Offer] = set()
        for kind, record in list(self.records.items()):
            if record.resolved is None and _is_past(now, record.seen, STALE):
                record.resolved = now
            for target in targets:
                offers |= self._offer(now, kind, record, target, target in news.get(kind, ()))
            record.to = {
                name: one for name, one in record.to.items() if name in targets or not _is_past(now, one.asked, STALE)
            }
            if record.is_done:
                del self.records[kind]
        return offers

    def _take(self, now: int, kind: str, verdict: str, limit: int) -> None:
        record = self.records.get(kind)
        is_there = record is not None and record.resolved is None and not _is_past(now, record.seen, STALE)
        if record and is_there and limit > record.limit:
            return
        if verdict == "open":
            record = self.records.setdefault(kind, Record(now, now, limit))
            record.quiet = record.resolved = None
        elif record and record.resolved is None:
            if verdict == "keep":
                record.quiet = None
            elif record.quiet is None:
                record.quiet = now
            elif _is_past(now, record.quiet, SETTLE):
                record.resolved = now
        if record:
            record.seen, record.limit = now, limit

    def _offer(self, now: int, kind: str, record: Record, target: str, has_news: bool) -> set[Offer]:
        one = record.to.get(target)
        if one is None and record.resolved is None:
            one = record.to[target] = To(now)
        if one is None:
            return set()
        one.asked = now
        what = self._wanted(now, record, one, has_news)
        if not what or one.hold > now:
            return set()
        one.hold = now + HOLD * 1_000_000
        if what == "open" and one.said == "resolving":
            one.number += 1
        if what in ("open", "resolved"):
            one.said = "" if what == "open" else "resolving"
        return {Offer(kind, what, target, record.opened, one.number)}

    @staticmethod
    def _wanted(now: int, record: Record, one: To, has_news: bool) -> str:
        if record.resolved is not None:
            return "resolved" if one.said != "resolved" else ""
        if one.said != "open":
            return "open"
        if has_news and _is_past(now, one.sent, GAP):
            return "news"
        return "again" if _is_past(now, one.sent, AGAIN) else ""

    def sent(self, now: int, offer: Offer) -> bool:
        """The target took it."""
        record = self.records.get(offer.kind)
        one = record.to.get(offer.target) if record and record.opened == offer.opened else None
        if record is None or one is None or one.number != offer.number:
            return False
        one.number, one.sent, one.hold = one.number + 1, now, 0
        one.said = "resolved" if offer.what == "resolved" else "open"
        if record.is_done:
            del self.records[offer.kind]
        return True


def _hold_to(record: Record, now: int) -> None:
    """A time ahead is of a clock that was set back: it counts as now."""
    record.seen = min(record.seen, now)
    record.quiet = None if record.quiet is None else min(record.quiet, now)
    for one in record.to.values():
        one.asked, one.sent = min(one.asked, now), min(one.sent, now)
        one.hold = min(one.hold, now + HOLD * 1_000_000)


def _is_past(now: int, at: int, seconds: int) -> bool:
    return now - at >= seconds * 1_000_000


NOW_US, SECOND = 1_700_000_000_000_000, 1_000_000
TIMES = AlertTimes(SETTLE, GAP, AGAIN, HOLD, STALE)
ONCE = TIMES._replace(again=0.0)
KINDS, TARGETS = ["parked", "wait"], ["chat", "mail"]
VERDICTS = st.sampled_from(["open", "open", "keep", "close", "close"])
LOOK = st.tuples(
    st.just("look"),
    st.fixed_dictionaries({"parked": VERDICTS}, optional={"wait": VERDICTS}),
    st.sampled_from([TARGETS, TARGETS, ["chat"], []]),
    st.dictionaries(st.sampled_from(KINDS), st.lists(st.sampled_from(TARGETS), unique=True), max_size=2),
    st.sampled_from([1, 1, 9]),
)
STEP = st.one_of(
    LOOK,
    LOOK,
    st.tuples(st.just("sent"), st.integers(0, 3)),
    st.tuples(st.just("sent"), st.integers(0, 3)),
    st.tuples(st.just("advance"), st.sampled_from([1, 2, 29, 31, 61, 601, 901, -40])),
)


class Both:
    """Does each step on the server and in the model, and compares."""

    def __init__(self, link: Link, keys: ShardKeys) -> None:
        self.link, self.keys, self.model, self.now = link, keys, Incidents(), NOW_US
        self.offers: list[Grant] = []

    def look(self, seen: dict[str, Any], targets: list[str], news: dict[str, list[str]], limit: int = 1) -> None:
        words = [Condition(kind, one, "1", str(limit), "text", news.get(kind, ())) for kind, one in seen.items()]
        found = self.link.run_one(at(calls.alert(self.keys, words, targets, TIMES), self.now))
        modelled = self.model.look(self.now, seen, targets, {kind: news.get(kind, []) for kind in seen}, limit)
        assert {Offer(one.kind, one.what, one.target, one.opened_us, one.number) for one in found} == modelled
        self.offers += sorted(found)

    def sent(self, position: int) -> None:
        if position < len(self.offers):
            one = self.offers.pop(position)
            offer = Offer(one.kind, one.what, one.target, one.opened_us, one.number)
            done = self.link.run_one(at(calls.alert_sent(self.keys, one), self.now))
            assert done == self.model.sent(self.now, offer)

    def advance(self, seconds: int) -> None:
        self.now += seconds * SECOND

    def compare(self) -> None:
        """What the server keeps is what the model has."""
        words = self.link.command("HGETALL", self.keys.alerts)
        found = {kind.decode(): json.loads(record) for kind, record in zip(words[::2], words[1::2], strict=True)}
        assert {kind: _plain(one) for kind, one in found.items()} == {
            kind: (one.opened, one.limit, one.quiet, one.resolved, _told(one))
            for kind, one in self.model.records.items()
        }


def _told(record: Record) -> dict[str, tuple[int, str]]:
    return {name: (to.number, to.said) for name, to in record.to.items()}


def _plain(record: dict[str, Any]) -> tuple[Any, ...]:
    quiet, resolved = (int(record[name]) if name in record else None for name in ("quiet", "resolved"))
    told = {name: (int(to["n"]), to.get("said", "")) for name, to in dict(record["to"]).items()}
    return int(record["opened"]), int(record["limit"]), quiet, resolved, told


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEP, min_size=15, max_size=40))
def test_the_script_does_what_the_rules_say(link: Link, keys: ShardKeys, steps: list[Any]) -> None:
    link.command("DEL", keys.alerts)
    both = Both(link, keys)
    for kind, *args in steps:
        getattr(both, kind)(*args)
        both.compare()


def goes_back(link: Link, keys: ShardKeys, back_s: int) -> list[tuple[str, str, str, int]]:
    """A kind that is seen each minute, and one each two seconds, both open for ten minutes, and what is told of them;
    in between the clock is set back.
    """
    link.command("DEL", keys.alerts)
    now, told = NOW_US, list[tuple[str, str, str, int]]()
    for number in range(300):
        now += 2 * SECOND
        if number == 157:
            now -= back_s * SECOND
        seen = [Condition("parked", "open", "1", "1", "text")]
        if number % 30 == 0:
            seen.append(Condition("backlog", "open", "1", "1", "text"))
        targets = ["chat"] if number % 2 else ["mail"]  # two watchers, each with a target of its own
        for one in link.run_one(at(calls.alert(keys, seen, targets, ONCE), now)):
            told.append((one.kind, one.target, one.what, one.number))
            link.run_one(at(calls.alert_sent(keys, one), now))
    return told


@pytest.mark.parametrize("back_s", [40, 86_400 * 365])
def test_a_clock_that_goes_back_ends_no_incident_and_tells_nothing_again(
    link: Link, keys: ShardKeys, back_s: int
) -> None:
    told = goes_back(link, keys, back_s)
    assert sorted(told) == [(kind, to, "open", 0) for kind in ("backlog", "parked") for to in TARGETS]
    assert sorted(kind.decode() for kind in link.command("HKEYS", keys.alerts)) == ["backlog", "parked"]
    link.command("DEL", keys.alerts)


def test_a_clock_that_goes_back_does_not_repeat_what_is_told_by_repeat(link: Link, keys: ShardKeys) -> None:
    is_repeated_once(link, keys)


def test_a_time_that_stays_ahead_is_found(link: Link, keys: ShardKeys) -> None:
    with changed_script("alert", "> latest then", "> math.huge then"), pytest.raises(AssertionError):
        is_repeated_once(link, keys)
    link.command("DEL", keys.alerts)


def is_repeated_once(link: Link, keys: ShardKeys) -> None:
    link.command("DEL", keys.alerts)
    both = Both(link, keys)
    for seconds in (2, 2, 2, -3600, 2, 598, 2, 2):
        both.advance(seconds)
        both.look({"parked": "open"}, ["chat"], {})
        both.sent(0)
        both.compare()
    assert both.model.records["parked"].to["chat"].number == 2, "again once, after its time by the new clock"
    link.command("DEL", keys.alerts)


# -- masters that send, and die --------------------------------------------------------------------------------------


class Masters:
    """Three masters look at one condition, each two seconds; what they got the right for is sent a second later. A
    target drops a message whose key it knows.
    """

    def __init__(self, link: Link, keys: ShardKeys) -> None:
        self.link, self.keys, self.now = link, keys, NOW_US
        self.took: Counter[tuple[str, str, int, int]] = Counter()
        """How often each message came to a target: target, what, opened, number."""
        self.waiting: list[tuple[Grant, str]] = []
        self.last = dict[str, str]()
        """What each target believes."""

    def run(self, verdict: str, seconds: int, ends: Iterator[str]) -> None:
        """`ends`: what becomes of each sending: "ok", "refused", "dies before", "dies after"."""
        for _ in range(seconds // 2):
            for _ in range(3):
                self.now += SECOND // 3
                seen: list[Any] = [Condition("parked", verdict, "1", "1", "")]  # type: ignore[arg-type]
                for one in self.link.run_one(at(calls.alert(self.keys, seen, TARGETS, TIMES), self.now)):
                    self.waiting.append((one, next(ends, "ok")))
            self.now += SECOND
            for one, end in self.waiting:
                self._send(one, end)
            self.waiting.clear()

    def _send(self, one: Grant, end: str) -> None:
        if end in ("ok", "dies after"):
            key = (one.target, one.what, one.opened_us, one.number)
            if key not in self.took:
                self.last[one.target] = "resolved" if one.what == "resolved" else "open"
            self.took[key] += 1
        if end == "ok":
            self.link.run_one(at(calls.alert_sent(self.keys, one), self.now))


def each_target_believes_what_holds(
    link: Link, keys: ShardKeys, phases: list[tuple[str, int]], ends: list[str]
) -> None:
    """A condition that comes and goes while answers are lost; then all goes well for longer than a hold."""
    link.command("DEL", keys.alerts)
    masters, left = Masters(link, keys), iter(ends)
    for verdict, seconds in phases:
        masters.run(verdict, seconds, left)
    masters.run("open", 2 * HOLD, iter(()))
    assert masters.last == dict.fromkeys(TARGETS, "open")
    masters.run("close", 2 * HOLD, iter(()))
    assert masters.last == dict.fromkeys(TARGETS, "resolved")
    assert max(masters.took.values()) <= 1 + ends.count("dies after"), "told twice, and nobody died"
    assert link.command("EXISTS", keys.alerts) == 0


PHASES = st.lists(st.tuples(st.sampled_from(["open", "close"]), st.sampled_from([2, 6, 14, 40])), max_size=8)
FLAPS = [("open", 4), ("close", 40), ("open", 40)]
LOST = [("open", 4), ("close", 10)]
"""It was over, and came back within the hold; the answers to all three messages were lost."""


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(phases=LOST, ends=["ok"] * 2 + ["dies after"] * 2)
@example(phases=FLAPS, ends=["dies after"] * 6)
@given(phases=PHASES, ends=st.lists(st.sampled_from(["ok", "refused", "dies before", "dies after"]), max_size=20))
def test_each_target_believes_what_holds_whoever_dies_and_whichever_answer_is_lost(
    link: Link, keys: ShardKeys, phases: list[tuple[str, int]], ends: list[str]
) -> None:
    each_target_believes_what_holds(link, keys, phases, ends)


CONTROLS = {
    "an unanswered end taken for unsent": ("to.said = 'resolving'", "", LOST, ["ok"] * 2 + ["dies after"] * 2),
    "an unanswered message taken for unsent": (
        "to.n = fmt('%d', tonumber(to.n) + 1)",
        "",
        FLAPS,
        ["dies after"] * 6,
    ),
    "no hold: each master tells": ("if what and (tonumber(to.hold) or 0) <= now then", "if what then", LOST, []),
    "told before it is sent: lost": (
        "to.hold = fmt('%.0f', now + hold)",
        "to.said = what == 'resolved' and 'resolved' or 'open'",
        FLAPS[:1],
        ["dies before"] * 4,
    ),
}


@pytest.mark.parametrize("name", CONTROLS)
def test_a_broken_rule_is_found(link: Link, keys: ShardKeys, name: str) -> None:
    old, new, phases, ends = CONTROLS[name]
    with changed_script("alert", old, new), pytest.raises(AssertionError):
        each_target_believes_what_holds(link, keys, phases, ends)
    link.command("DEL", keys.alerts)


def watchers_with_two_limits(link: Link, keys: ShardKeys) -> list[tuple[str, str]]:
    """What is told in ten minutes of 5 parked groups, where one looks each second with limit 9, another each 10 s with
    limit 1.
    """
    link.command("DEL", keys.alerts)
    now, told = NOW_US, list[tuple[str, str]]()
    for second in range(600):
        now += SECOND
        seen = [Condition("parked", "close", "5", "9", "text")]
        if second % 10 == 0:
            seen = [Condition("parked", "open", "5", "1", "text")]
        for one in link.run_one(at(calls.alert(keys, seen, ["chat"], ONCE), now)):
            told.append((one.what, one.limit))
            link.run_one(at(calls.alert_sent(keys, one), now))
    return told


def test_of_two_watchers_with_two_limits_the_lower_decides(link: Link, keys: ShardKeys) -> None:
    with changed_script("alert", "is_decided_by_another(record, limit) then", "false then"):
        assert len(watchers_with_two_limits(link, keys)) > 20
    assert watchers_with_two_limits(link, keys) == [("open", "1")]
    left, now = [Condition("parked", "close", "5", "9", "text")], NOW_US + (600 + STALE) * SECOND
    link.run_one(at(calls.alert(keys, left, ["chat"], ONCE), now))
    (over,) = link.run_one(at(calls.alert(keys, left, ["chat"], ONCE), now + 2 * SECOND))
    assert (over.what, over.limit) == ("resolved", "9"), "nobody looks with the lower limit any more"
    link.command("DEL", keys.alerts)
