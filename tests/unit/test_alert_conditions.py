"""Which conditions of a queue hold: a pure function of what was seen."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sequencer.calls.alerts import Condition
from sequencer.queue.alerts.conditions import QueueFacts, conditions
from sequencer.queue.alerts.facts import FAILED, Attempts
from sequencer.settings.policy import Policy
from sequencer.settings.thresholds import CLOSES_AT, Thresholds
from sequencer.texts.alerts import UNITS, commands_for
from sequencer.values.history import HistoryInfo
from sequencer.values.pools import OutboxBacklog
from sequencer.values.views import QueueInfo, QueueSnapshot, Unreachable

LOOK = QueueSnapshot("orders", due=0, waits_s=0.0, parked=0, dead=0, is_paused=False, has_outage=False)
COUNTS: dict[str, Any] = dict.fromkeys(("backlog", "groups", "due", "leased", "waiting", "parked", "paused", "dead"), 0)
INFO = QueueInfo(
    "orders",
    "shop",
    shards=1,
    lag_s=0.0,
    is_paused=False,
    is_estimate=False,
    totals={},
    append_rate=None,
    handle_rate=None,
    **COUNTS,
)


def seen(limits: Thresholds | None = None, **facts: Any) -> dict[str, Condition]:
    found = conditions(QueueFacts(host="web1", **facts), limits or Thresholds(), {})
    assert len({one.kind for one in found}) == len(found)
    return {one.kind: one for one in found}


def verdicts(limits: Thresholds | None = None, **facts: Any) -> dict[str, str]:
    return {kind: one.verdict for kind, one in seen(limits, **facts).items()}


def test_what_is_not_known_neither_opens_nor_closes() -> None:
    assert verdicts() == {}
    assert verdicts(snapshot=LOOK) == {
        "parked": "close",
        "dead": "close",
        "wait": "close",
        "outage": "close",
        "unreachable": "close",
    }


def test_where_shards_cannot_be_reached_nothing_else_closes() -> None:
    away = Unreachable((1,), "refused")
    found = verdicts(snapshot=replace(LOOK, unreachable=away, dead=5), info=replace(INFO, unreachable=away))
    assert (found.pop("unreachable"), found.pop("dead")) == ("open", "open")
    assert {*found.values()} == {"keep"}


def test_a_person_reads_what_was_seen() -> None:
    snapshot = replace(LOOK, due=3, waits_s=75.0, parked=1, dead=12_000, has_outage=True)
    snapshot = replace(snapshot, unreachable=Unreachable((3, 7), "refused"))
    info = replace(INFO, backlog=20_000, lag_s=700.0, is_estimate=True)
    here: dict[str, Any] = {"down_s": 3.0, "check": "disk full", "outbox": OutboxBacklog(200, 61.0, 2)}
    found = seen(snapshot=snapshot, info=info, no_consumers_s=80.0, tried=(30, 100), memory=0.95, **here)
    assert {one.verdict for one in found.values()} == {"open"}
    assert {kind: one.text for kind, one in found.items()} == {
        "parked": "1 group parked",
        "dead": "12,000 dead letters",
        "wait": "3 groups waiting for a consumer, the first for 75 s",
        "outage": "an outage holds the queue back: a shared dependency is down",
        "unreachable": "shards 3, 7 can't be reached (refused); their groups stand still",
        "no_consumers": "no consumer is working: groups have been due for 80 s, and none is in progress",
        "backlog": "about 20,000 messages waiting",
        "lag": "the oldest head of a group is 11 min old",
        "failing": "30 of 100 attempts failed in five minutes (30%)",
        "memory": "the server has 95% of its maxmemory in use; when it is full, appends are refused",
        "pool@web1": "consumers on web1 keep dying before a first message, for 3 s so far; check their log",
        "check@web1": "disk full",
        "outbox_age": "200 rows of the outbox not sent, the oldest for 61 s: is its relay running?",
        "outbox_held": "2 rows of the outbox refused by the queue; later rows of their groups wait",
    }


@given(value=st.integers(0, 200), limit=st.integers(0, 100))
def test_a_value_opens_at_its_limit_and_closes_well_below(value: int, limit: int) -> None:
    found = verdicts(Thresholds(backlog=limit), info=replace(INFO, backlog=value))
    if limit == 0:
        assert "backlog" not in found
    elif value >= limit:
        assert found["backlog"] == "open"
    else:
        assert found["backlog"] == ("close" if value < CLOSES_AT * limit else "keep")


def test_a_pause_opens_and_closes_nothing_that_waits() -> None:
    snapshot, info = replace(LOOK, waits_s=999.0, is_paused=True), replace(INFO, lag_s=9999.0, is_paused=True)
    found = verdicts(snapshot=snapshot, info=info, no_consumers_s=0.0)
    assert [found[kind] for kind in ("wait", "lag", "no_consumers")] == ["keep"] * 3


def test_few_attempts_say_nothing() -> None:
    assert verdicts(tried=(19, 19))["failing"] == "close"
    assert verdicts(tried=(4, 20))["failing"] == "open"


def test_who_has_just_begun_knows_of_no_attempts_and_closes_nothing() -> None:
    totals = dict.fromkeys([*FAILED, "handled"], 0)
    attempts = Attempts()
    found = [attempts.note(60.0 * minute, {**totals, "failed": 4 * minute, "handled": minute}) for minute in range(7)]
    assert found[:4] == [None] * 4  # fewer than 20 attempts, of less than five minutes
    assert found[4:] == [(16, 20), (20, 25), (20, 25)]
    assert attempts.note(800.0, {**totals, "failed": 24, "handled": 6}) == (0, 0)


@pytest.mark.parametrize(
    ("messages", "reaches_s", "verdict"), [(950, 1000.0, "open"), (950, 86_400.0, "close"), (10, 1000.0, "close")]
)
def test_a_history_that_its_cap_cuts_short(messages: int, reaches_s: float, verdict: str) -> None:
    info = replace(INFO, history=HistoryInfo(86_400.0, reaches_s, messages))
    policy = Policy(history_window=86_400.0, history_cap=1000)
    assert verdicts(info=info, policy=policy)["history"] == verdict
    assert "history" not in verdicts(Thresholds(history=False), info=info, policy=policy)


def test_each_kind_has_a_command_and_its_unit() -> None:
    snapshot = replace(LOOK, due=3, waits_s=75.0)
    kinds = seen(snapshot=snapshot, info=INFO, no_consumers_s=0.0, tried=(0, 30), memory=0.5, down_s=0.0)
    for kind in kinds:
        assert commands_for(kind, "orders", "shop")
        assert not re.search(r"[A-Z]{2}", " ".join(commands_for(kind, "orders", "shop", app="shop:orders"))), "a blank"
    assert commands_for("pool@web1", "orders", "shop", file="/srv/a b/run.toml") == (
        "sequencer run '/srv/a b/run.toml' --status",
    )
    assert [UNITS.get(kind, "") for kind in ("wait", "failing", "parked")] == ["s", "share", ""]
    assert [kinds[kind].limit for kind in ("wait", "failing", "outage")] == ["60", "0.2", ""]
