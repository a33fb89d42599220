"""The judge of histories: legal ones are clean, whatever their faults; each kind of violation turns it red."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sequencer import Message
from sequencer.testing import wait_until

from ..support.judge.history import Event, Recorder, read_events
from ..support.judge.judgement import judge


@dataclass
class Legal:
    """A legal history, made up step by step: two groups, kills and pauses that are recorded as faults."""

    events: list[Event] = field(default_factory=list)
    now: float = 0.0
    clock: int = 1000
    ids: int = 0
    pending: dict[str, list[tuple[float, int, str]]] = field(default_factory=lambda: {"a": [], "b": []})
    leases: dict[str, tuple[str, int, list[tuple[float, int, str]]]] = field(default_factory=dict)

    def note(self, what: str, **fields: Any) -> None:
        self.now += 1.0
        self.events.append(Event(what, self.now, **fields))

    def append(self, group: str, score: int) -> None:
        self.ids, self.clock = self.ids + 1, self.clock + 10
        name = f"m{self.ids}"
        self.note("appending", who="p", group=group, id=name, score=float(score))
        self.note("appended", who="p", group=group, id=name, stamp=self.clock, kind="stored")
        self.pending[group].append((float(score), self.clock, name))

    def handle(self, group: str, who: str, fate: str) -> None:
        """One claim of up to two messages; `fate` is what befalls the process before its ack arrives."""
        self.clock += 10
        token = self.clock
        for score, stamp, name in sorted(self.pending[group])[:2]:
            fields = {"who": who, "group": group, "id": name, "score": score, "stamp": stamp, "token": token}
            self.note("begun", **fields)
            if fate == "fails":
                return self.note("failed", kind="ValueError", **fields)
            if fate == "killed at work":
                return self.note("fault", who=who, kind="kill")
            if fate == "stopped":
                self.note("fault", who=who, kind="stop", until=self.now + 1000)
                self.handle(group, f"{who}'", "ok")  # another takes it over while this one stands still
                return self.note("ended", **fields)
            self.note("ended", **fields)
            if fate == "killed at ack":
                self.events.append(Event("fault", self.now + 0.01, who=who, kind="kill"))
                return None
            self.pending[group].remove((score, stamp, name))
        return None


FATES = ("ok", "ok", "fails", "killed at work", "killed at ack", "stopped")


def legal(seed: int, steps: int = 40, fates: tuple[str, ...] = FATES) -> Legal:
    chance, history = random.Random(seed), Legal()
    processes = 0
    for _ in range(steps):
        group = chance.choice("ab")
        if chance.random() < 0.5:
            history.append(group, chance.randrange(5))
        else:
            processes += 1
            history.handle(group, f"c{processes}", chance.choice(fates))
    history.note("healed")
    while any(history.pending.values()):
        for group in "ab":
            history.handle(group, "last", "ok")
    history.note("drained")
    return history


@given(st.integers(0, 2**32))
def test_legal_histories_are_clean(seed: int) -> None:
    found = judge(legal(seed).events, recover_s=10**6)
    assert found.is_clean, found.cases
    assert found.duplicates <= found.duplicates_allowed


@given(st.integers(0, 2**32))
def test_without_faults_no_duplicate_is_allowed(seed: int) -> None:
    found = judge(legal(seed, fates=("ok", "fails")).events)
    assert (found.duplicates, found.duplicates_allowed) == (0, 0)
    assert found.is_clean, found.cases


@given(st.integers(0, 2**32), st.data())
def test_what_is_broken_turns_it_red(seed: int, data: st.DataObject) -> None:
    history = legal(seed, fates=("ok",))
    runs = [event for event in history.events if event.what == "ended"]
    if not runs:
        return
    run = data.draw(st.sampled_from(runs))
    begun = next(e for e in history.events if e.what == "begun" and e[3:5] == run[3:5])
    others = [event for event in history.events if event not in (run, begun)]

    assert judge(others).losses == 1
    never_appended = [event for event in history.events if event.what not in ("appending", "appended")]
    assert judge(never_appended).inventions == len(runs)
    again = [begun._replace(at=history.now + 1), run._replace(at=history.now + 2)]
    found = judge([*history.events, *again])
    assert (found.unexplained, found.duplicates) == (1, 1)
    assert found.tokens_back == (begun.token != max(e.token for e in runs if e.group == run.group))


def pair(**second: Any) -> list[Event]:
    """Two messages of one group, both there before the lease, handled by one process; the second run as told."""
    events = []
    for name, stamp in (("m1", 11), ("m2", 12)):
        events.append(Event("appending", stamp / 100, "p", "g", name, 1.0))
        events.append(Event("appended", stamp / 100, "p", "g", name, stamp=stamp, kind="stored"))
    for name, at, more in (("m1", 1.0, {}), ("m2", 2.0, second)):
        fields = {"who": "c", "group": "g", "id": name, "score": 1.0, "stamp": 11 + (name == "m2"), "token": 20}
        start = {**fields, "at": at, **more}
        events += [Event("begun", **start), Event("ended", **{**start, "at": start["at"] + 0.5})]
    return events


@pytest.mark.parametrize(
    ("second", "kind"),
    [
        ({"at": 0.2}, "order_violations"),
        ({"at": 0.8, "who": "d", "token": 21}, "order_violations"),
        ({"at": 1.2, "who": "d", "token": 21}, "overlaps"),
        ({"at": 1.2, "who": "d", "token": 20}, "overlaps"),
        ({"at": 2.0, "who": "d", "token": 20}, "overlaps"),
        ({"at": 2.0, "who": "d", "token": 19}, "tokens_back"),
    ],
)
def test_each_kind_of_disorder(second: dict[str, Any], kind: str) -> None:
    found = judge(pair(**second))
    assert getattr(found, kind) >= 1, found
    assert not found.is_clean


def test_one_that_came_after_the_lease_is_late_not_out_of_order() -> None:
    assert judge(pair()).is_clean
    events = pair(at=0.2)
    assert judge([event._replace(stamp=99) if event.id == "m1" else event for event in events]).is_clean
    assert judge([e._replace(redriven=True) if e.id == "m1" else e for e in events]).order_violations == 0


def test_an_overlap_is_excused_by_a_fault_of_the_older_process_only() -> None:
    events = pair(at=1.2, who="d", token=21)
    fault = Event("fault", 1.1, "c", kind="stop", until=1.3)
    assert judge([*events, fault]).overlaps == 0
    assert judge([*events, fault._replace(who="d")]).overlaps == 1
    assert judge([*events, fault._replace(at=0.1, until=0.2)]).overlaps == 1
    assert judge([*events, fault._replace(who="")]).overlaps == 0


def test_a_duplicate_is_explained_only_near_the_fault() -> None:
    events = pair()
    again = [event._replace(at=event.at + 8, who="d", token=30) for event in events if event.what in ("begun", "ended")]
    kill = Event("fault", 2.55, "c", kind="kill")
    found = judge([*events, *again, kill])
    assert (found.duplicates, found.unexplained, found.duplicates_allowed) == (2, 1, 1)
    assert judge([*events, *again, kill._replace(at=9.0)]).unexplained == 2


def test_recovery_and_honesty() -> None:
    events = [*pair(), Event("healed", 3.0), Event("drained", 5.0)]
    assert judge(events, recover_s=2.5).is_clean
    assert judge(events, recover_s=2.5).recovery_s == 2.0
    assert not judge(events, recover_s=1.5).is_clean
    assert not judge(events[:-1], recover_s=2.5).is_clean
    found = judge([*events, Event("fault", 3.5, "x", kind="kill")], expected=("kill", "stop"))
    assert (list(found.missing), found.is_clean, found.effects["kill"]) == (["stop"], False, 1)


def test_what_remains_is_not_lost() -> None:
    events = [event for event in pair() if event.id != "m2" or event.what.startswith("append")]
    assert judge(events).losses == 1
    assert judge(events, remaining=[("g", "m2")]).is_clean


def test_a_recorder_writes_what_a_handler_did(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "h", who="me")
    message = Message("m1", ("a", "b:c"), 1.5, None, {}, 2, 20, 0.0, "q", 11)

    def fail(_: Message) -> None:
        raise ValueError("no")

    recorder.note("appending", group="a:b%3Ac", id="m1")
    recorder.run(lambda _: None)(message)
    with pytest.raises(ValueError, match="no"):
        recorder.run(fail)(message)
    recorder.close()
    with (tmp_path / "h").open("ab") as file:
        file.write(b'{"what": "begun", "at"')  # killed in the middle of a write
    events = read_events([tmp_path / "h", tmp_path / "none"])
    assert [event.what for event in events] == ["appending", "begun", "ended", "begun", "failed"]
    assert events[1][2:8] == ("me", "a:b%3Ac", "m1", 1.5, 11, 20)
    assert events[4].kind == "ValueError"
    (tmp_path / "bad").write_bytes(b'{"what": "begun", "at": 1, "color": 2}\n')
    with pytest.raises(ValueError, match="line 1 is not an event"):
        read_events([tmp_path / "bad"])


def appended(name: str, at: float, stamp: int, score: float = 1.0) -> list[Event]:
    return [
        Event("appending", at, "p", "g", name, score),
        Event("appended", at, "p", "g", name, stamp=stamp, kind="stored"),
    ]


def ran(who: str, name: str, token: int, at: float, stamp: int, score: float = 1.0, how: str = "ended") -> list[Event]:
    """A run of 0.1 s."""
    fields: dict[str, Any] = {"who": who, "group": "g", "id": name, "score": score, "stamp": stamp, "token": token}
    return [Event("begun", at, **fields), Event(how, at + 0.1, **fields)]


def test_the_score_that_orders_is_the_one_of_the_producer() -> None:
    events = appended("x", 0, 10, 2.0) + appended("m", 1, 11, 1.0)
    handled = ran("c", "x", 20, 2, 10, 0.0) + ran("c", "m", 20, 4, 11, 0.0)
    assert any(case.startswith("altered") for case in judge(events + handled).cases)
    assert judge(events + ran("c", "m", 20, 2, 11, 1.0) + ran("c", "x", 20, 4, 10, 2.0)).is_clean


def test_a_newer_run_does_not_hide_what_a_stale_holder_began() -> None:
    """Under its old token one begins x before m, which lies before it; the newer lease then does both in order."""
    events = appended("m", 0, 10, 2.0) + appended("x", 0, 11, 9.0) + [Event("fault", 1.0, "a", kind="stop", until=5.0)]
    newer = ran("b", "m", 30, 4.0, 10, 2.0) + ran("b", "x", 30, 4.2, 11, 9.0)
    assert judge(events + newer).is_clean
    assert judge(events + newer + ran("a", "x", 20, 3.0, 11, 9.0)).order_violations == 1


@pytest.mark.parametrize(("at", "kind"), [(100.5, "overlaps"), (102.0, "tokens_back")])
def test_a_fault_before_the_lease_excuses_nothing(at: float, kind: str) -> None:
    """One lost a reply long ago; since then it was at work here, under a newer token."""
    fault = Event("fault", 0.0, "a", kind="reply lost", until=0.01)
    events = [fault, *appended("w", 0.1, 1), *ran("a", "w", 5, 0.2, 1)]
    events += appended("m", 90, 10) + appended("n", 90, 11)
    newer = ran("b", "m", 30, 100.45, 10)
    events += [newer[0], newer[1]._replace(at=101.0), *ran("a", "n", 20, at, 11)]
    assert getattr(judge(events), kind) == 1
    assert getattr(judge([*events, Event("fault", 100.4, "a", kind="stop", until=103.0)]), kind) == 0


def test_drained_before_healed_is_no_recovery() -> None:
    events = [*pair(), Event("drained", 3.0), Event("healed", 90.0)]
    assert not judge(events, recover_s=2.0).is_clean


def test_an_empty_history_shows_nothing() -> None:
    assert judge([]).is_clean, "nothing was asked for"
    drained = [Event("healed", 1.0), Event("drained", 1.1)]
    assert judge(drained, recover_s=2.0).cases == ["nothing: no message was stored, so nothing was shown"]
    assert not judge([Event("fault", 1.0, kind="kill")], expected=["kill"]).is_clean


def test_nothing_behind_a_waiting_message_may_have_begun() -> None:
    events = appended("m", 0, 10) + appended("x", 0, 11) + ran("a", "m", 20, 1.0, 10, how="failed")
    overtaken = events + ran("a", "x", 20, 1.2, 11)
    assert judge(events, pending=[("g", "m"), ("g", "x")]).is_clean
    assert judge(overtaken, pending=[("g", "m")]).order_violations == 1
    assert judge(overtaken, remaining=[("g", "m")]).is_clean, "given up: the group goes on"


# -- what is there at the end: in the queue, or among the dead letters ---------------------------------------------

M, X = ("g", "m"), ("g", "x")
STORED = [*appended("m", 0.1, 11), *appended("x", 0.2, 12)]
"""x lies behind m."""
HANDLED = ran("a", "m", 20, 1.0, 11)
KILL = Event("fault", 1.12, "a", kind="kill")
"""Between the end of that run and its acknowledgement."""


def test_a_newer_lease_may_not_pass_a_message_that_waits() -> None:
    """Handled, but for its acknowledgement; its next lease has to begin with it again."""
    assert judge([*STORED, *HANDLED, KILL, *ran("b", "x", 30, 5.0, 12)], pending=[M]).order_violations == 1
    again = [*STORED, *HANDLED, KILL, ran("b", "m", 30, 5.0, 11)[0]]
    assert judge(again, pending=[M, X]).is_clean


def test_the_lease_under_which_it_was_handled_may_pass_it() -> None:
    begun = ran("a", "x", 20, 1.11, 12)[0]
    assert judge([*STORED, *HANDLED, begun, KILL._replace(at=1.18)], pending=[M, X]).is_clean


@pytest.mark.parametrize("where", ["pending", "dead"])
def test_what_nobody_appended_is_an_invention_wherever_it_is(where: str) -> None:
    events = [*STORED, *HANDLED, *ran("a", "x", 20, 1.2, 12)]
    assert judge(events).is_clean
    assert judge(events, **{where: [("g", "z")]}).inventions == 1  # type: ignore[arg-type]


@pytest.mark.parametrize("where", ["pending", "dead"])
def test_what_is_still_there_was_not_handled_unless_a_fault_kept_its_acknowledgement(where: str) -> None:
    assert judge(STORED, dead=[M, X]).is_clean, "given up: not lost"
    assert judge([*appended("m", 0.1, 11), *HANDLED], **{where: [M]}).order_violations == 1  # type: ignore[arg-type]
    assert judge([*appended("m", 0.1, 11), *HANDLED, KILL], **{where: [M]}).is_clean  # type: ignore[arg-type]


def test_a_fault_before_the_message_was_appended_explains_nothing() -> None:
    """b stood still in a time when there was nothing to lease; later it begins under an older token than c's."""
    early = Event("fault", 0.0, "b", kind="stop", until=0.05)
    newer, older = ran("c", "m", 30, 1.0, 11), ran("b", "x", 20, 1.05, 12)
    verdict = judge([early, *STORED, *newer, *older])
    assert (verdict.overlaps, verdict.tokens_back) == (1, 1)
    verdict = judge([early._replace(until=9.0), *STORED, *newer, *older])
    assert (verdict.overlaps, verdict.tokens_back) == (0, 0)


def test_wait_until_returns_what_it_waited_for_and_fails_with_the_last_value() -> None:
    values = iter([0, 0, 7])
    assert wait_until(lambda: next(values)) == 7
    with pytest.raises(AssertionError):
        wait_until(lambda: 0, timeout_s=0.01, what="the moon")
