"""001: set in s and ms, read the rest, delete, set again; a timer fires though nobody listened; its row is kept."""

from __future__ import annotations

import time
from typing import Any

import pytest

from .conftest import Load

Said = pytest.CaptureFixture[str]


@pytest.fixture
def timers(load: Load) -> Any:
    return load("countdown")


def fire(timers: Any) -> None:
    timers.seq.consume(until_empty=True)


def test_a_timer_that_is_deleted_does_not_fire_and_no_other_is_touched(timers: Any, capsys: Said) -> None:
    """The legacy deleted another key than it had set."""
    timers.create_ms("Order@close@7", 100)
    timers.create_ms("Order@close@77", 100)
    timers.create_ms("Coupon@expire@3@c9", 10)
    assert timers.delete("Order@close@7") is True
    assert timers.delete("Order@close@7") is False
    assert timers.get_pttl("Order@close@7") == timers.NO_TIMER
    fire(timers)
    assert capsys.readouterr().out.splitlines() == ["coupon c9 of user 3 expired", "order 77 closed"]
    assert timers.seq.get("Order@close@7", "Order@close@7").state == "cancelled"


def test_a_timer_that_is_set_again_fires_once_at_its_new_time(timers: Any, capsys: Said) -> None:
    key = "Order@close@7"
    timers.create(key, 600)
    assert timers.get_ttl(key) in (599, 600)
    timers.create_ms(key, 200)
    assert 0 <= timers.get_pttl(key) <= 200
    fire(timers)
    assert capsys.readouterr().out.splitlines() == ["order 7 closed"]
    timers.create_ms(key, 50)
    fire(timers)
    assert capsys.readouterr().out.splitlines() == ["order 7 closed"], "also after it fired"


def test_the_row_stays_with_its_status_and_its_times_to_the_millisecond(timers: Any) -> None:
    key, before = "Order@close@7", time.time()
    timers.create_ms(key, 200)
    assert timers.seq.get(key, key).status == "pending"
    fire(timers)
    row = timers.seq.get(key, key)
    assert (row.status, row.state, row.kind) == ("finished", "finished", "Order@close")
    assert row.appended_at == pytest.approx(before, abs=10)
    assert row.appended_at + 0.19 <= row.began_at <= row.finished_at
    assert row.finished_at == round(row.finished_at, 3)
    assert [info.id for info in timers.seq.history(since=60)] == [key]


def test_a_timer_of_an_unknown_callback_is_kept_for_a_person(load: Load) -> None:
    timers = load("countdown", missing_wait=0.0)
    timers.create_ms("Order@burn@7", 10)
    fire(timers)
    assert timers.get_pttl("Order@burn@7") == timers.NO_TIME
    assert [dead.error.type for dead in timers.seq.dead()] == ["StepMissing"]
