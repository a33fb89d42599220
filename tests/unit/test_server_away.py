"""That the server is away is told by each process for itself: when, to whom, how often, and that it is over."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sequencer.calls.alerts import Grant
from sequencer.errors import ServerUnavailable
from sequencer.processes.alerts.notice import Origin, notice_of
from sequencer.processes.alerts.sender import ALL_ATTEMPTS_S, Sender
from sequencer.processes.alerts.server_away import HOLD_S, AwayIncident
from sequencer.processes.alerts.settings import QueueAlerts
from sequencer.processes.alerts.targets import Command
from sequencer.processes.alerts.watcher import WatchedQueue, Watcher
from sequencer.processes.master.plan import PoolPlan, RunPlan
from sequencer.processes.worker.config import WorkerConfig
from sequencer.settings.thresholds import Thresholds

AT, LIMIT_S, REPEAT_S = 1_700_000_000.0, 30.0, 600.0


class Walk:
    """A process that looks, with a clock of its own."""

    def __init__(self, *targets: str) -> None:
        self.away, self.now, self.targets = AwayIncident(), 0.0, targets or ("chat",)
        self.takes = set(self.targets)
        self.told: list[tuple[float, str, str, int]] = []

    def check(self, error: str, seconds: float = 2.0, limit_s: float = LIMIT_S) -> list[Grant]:
        self.now += seconds
        at, limits = AT + self.now, {"limit_s": limit_s, "repeat_s": REPEAT_S}
        found = self.away.check(self.now, at, error, self.targets, **limits)
        for one in found:
            if one.target in self.takes:
                self.away.sent(one)
                self.told.append((self.now, one.target, one.what, one.number))
        return found

    def look_for(self, error: str, seconds: int) -> None:
        for _ in range(seconds // 2):
            self.check(error)


def test_it_is_told_once_after_the_limit_again_by_repeat_and_when_it_is_over() -> None:
    walk = Walk()
    walk.look_for("", 10)
    walk.look_for("refused", 30)
    assert walk.told == []
    walk.look_for("refused", 1000)
    walk.look_for("", 100)
    assert walk.told == [
        (42.0, "chat", "open", 0),
        (642.0, "chat", "again", 1),
        (1042.0, "chat", "resolved", 2),
    ]


def test_an_answer_in_between_begins_anew_and_a_limit_of_0_tells_nobody() -> None:
    walk = Walk()
    for _ in range(100):
        walk.look_for("refused", 28)
        walk.check("")
    for _ in range(100):
        walk.check("refused", limit_s=0.0)
    walk.check("")
    assert walk.told == []


def test_a_target_that_takes_nothing_is_tried_after_the_hold_and_hears_of_the_end() -> None:
    walk = Walk("chat", "mail")
    walk.takes = {"mail"}
    walk.look_for("refused", 40)
    assert [one.target for one in walk.check("refused", HOLD_S)] == ["chat"]
    walk.check("")
    walk.takes = {"chat", "mail"}
    walk.check("", HOLD_S)
    walk.look_for("", 100)
    assert [told[1:] for told in walk.told] == [("mail", "open", 0), ("mail", "resolved", 1), ("chat", "resolved", 1)]


def test_the_next_time_is_told_with_its_own_length_though_one_target_never_heard_the_end() -> None:
    walk = Walk("chat", "mail")
    walk.takes = {"mail"}
    walk.look_for("refused", 40)
    walk.look_for("", 7200)
    walk.look_for("gone", 30)
    said = {one.target: one for one in walk.check("gone")}
    assert (said["mail"].what, said["mail"].number, said["mail"].value) == ("open", 2, "30.0")
    assert notice_of(Origin("shop", "", "web-1"), "", said["mail"], shown_by="orders").at == AT + walk.now


def test_a_server_that_is_away_again_before_the_end_was_answered_is_told_under_a_new_key() -> None:
    walk = Walk()
    walk.look_for("refused", 40)
    walk.takes.clear()
    walk.check("")
    walk.look_for("refused", 34)
    assert [(one.what, one.number) for one in walk.check("refused", HOLD_S)] == [("open", 2)]
    walk.takes = {"chat"}
    assert [(one.what, one.number) for one in walk.check("", HOLD_S)] == [("resolved", 3)]


def test_the_key_names_host_and_namespace_and_is_the_same_to_the_end() -> None:
    walk, origin = Walk(), Origin("shop", "production", "web-1")
    walk.takes.clear()
    walk.look_for("connection refused", 30)
    (first,) = walk.check("connection refused")
    walk.check("")
    (last,) = walk.check("", HOLD_S)
    notices = [notice_of(origin, "", one._replace(kind="away@web-1"), shown_by="orders") for one in (first, last)]
    assert {one.incident for one in notices} == {f"shop::away@web-1:{round((AT + 2) * 1e6)}"}


def test_a_message_is_begun_soon_enough_to_end_with_its_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the next look gets the right to tell it while it is being sent, and it is told twice."""
    untils = list[float]()
    monkeypatch.setattr(Sender, "offer", lambda self, until, notice, on_sent: untils.append(until))
    target = Command(name="chat", words=("true",), directory=tmp_path, hidden=frozenset(), timeout_s=1.0)
    alerts = QueueAlerts(limits=Thresholds(away=1e-9), to=("chat",))
    pool, url = PoolPlan(config=WorkerConfig(queue="orders"), alerts=alerts), f"unix://{tmp_path}/none"
    plan = RunPlan(path=tmp_path / "sequencer.toml", redis=url, pools=(pool,), targets=(target,))
    watcher = Watcher(plan, emit=lambda event: None, away=AwayIncident())
    watcher.round()
    watcher.round()
    ended = time.monotonic()
    watcher.close()
    (until,) = untils
    assert until <= ended + HOLD_S - ALL_ATTEMPTS_S


def test_one_queue_that_is_answered_does_not_end_what_another_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """They may be on other nodes of a cluster."""
    events, away = list[str](), {"a"}

    def watch(_: Watcher, one: WatchedQueue, now: float) -> None:
        if one.queue in away:
            raise ServerUnavailable("unreachable", server="node", error="refused")

    monkeypatch.setattr(Watcher, "_watch", watch)
    pools = tuple(PoolPlan(config=WorkerConfig(queue=name)) for name in "ab")
    plan = RunPlan(path=Path("sequencer.toml"), redis="redis://localhost:1", pools=pools)
    watcher = Watcher(plan, emit=lambda event: events.append(event.name))
    for _ in range(3):
        watcher.round()
    assert (events, watcher._server.is_away) == (["server lost"], True)
    away.clear()
    watcher.round()
    watcher.close()
    assert (events, watcher._server.is_away) == (["server lost", "server back"], False)


@pytest.mark.slow
@given(st.lists(st.tuples(st.sampled_from(["", "refused"]), st.sampled_from([2.0, 31.0, 700.0])), max_size=40))
def test_each_that_is_told_of_it_is_told_its_end(steps: list[tuple[str, float]]) -> None:
    walk = Walk("chat", "mail")
    for error, seconds in steps:
        walk.check(error, seconds)
    walk.check("")
    for target in walk.targets:
        said = [what for _, to, what, _ in walk.told if to == target]
        assert said.count("open") == said.count("resolved")
        assert said[-1:] in ([], ["resolved"])
    assert walk.check("") == []
