"""What all consumers report is told once: when it begins, and when it is over."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sequencer.processes.shared_reports import GATHER_S, SharedReports


class Told:
    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.shared = SharedReports(lambda name, **fields: self.events.append((name, fields)))

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.events]


def lost(pid: int) -> dict[str, Any]:
    return {"event": "server lost", "pid": pid, "error": "refused"}


def back(pid: int) -> dict[str, Any]:
    return {"event": "server back", "pid": pid}


def test_a_server_that_is_away_is_told_once_and_that_it_is_back() -> None:
    told = Told()
    for pid in range(40):
        told.shared.add_report(lost(pid), 10.0 + pid / 100)
    told.shared.add_report(lost(3), 11.0)
    assert told.names == ["server lost"]
    for pid in range(40):
        assert told.names == ["server lost"]
        told.shared.add_report(back(pid), 22.5)
    assert told.events[1:] == [("server back", {"away_s": 12.5})]
    told.shared.add_report(lost(1), 30.0)
    assert told.names == ["server lost", "server back", "server lost"], "a new outage is a new incident"


def test_who_ended_is_not_waited_for() -> None:
    told = Told()
    told.shared.add_report(lost(1), 1.0)
    told.shared.add_report(lost(2), 1.0)
    told.shared.forget(1)
    told.shared.add_report(back(2), 2.0)
    assert told.names == ["server lost", "server back"]


def test_the_successor_of_one_that_died_without_its_server_says_that_it_is_back() -> None:
    told = Told()
    told.shared.add_report(lost(1), 1.0)
    told.shared.forget(1)
    told.shared.add_report(lost(2), 3.0)
    assert told.names == ["server lost"], "the same outage"
    told.shared.forget(2)
    told.shared.add_report({"event": "started", "pid": 3}, 5.0)
    assert told.events[1:] == [("server back", {"away_s": 4.0})]


def test_nobody_is_said_to_be_back_who_was_not_lost() -> None:
    told = Told()
    told.shared.add_report(back(1), 1.0)
    told.shared.forget(1)
    assert told.names == []


def ran_out(owner: str, group: str = "g", attempts: int = 0) -> dict[str, object]:
    head = {"group": [group], "id": "m", "attempt": attempts}
    return {"event": "lease expired", "pid": 1, "expired_owner": owner, **head}


@given(st.lists(st.tuples(st.sampled_from(["h:1:a", "h:2:b"]), st.floats(0, 0.9)), min_size=1, max_size=60))
def test_leases_that_expire_together_are_told_together(expired: list[tuple[str, float]]) -> None:
    told = Told()
    for owner, at in sorted(expired, key=lambda one: one[1]):
        told.shared.add_report(ran_out(owner), at)
        told.shared.tick(at)
    assert told.names == []
    left_s = told.shared.wait_s(0.9)
    assert left_s is not None
    assert 0 < left_s <= GATHER_S
    told.shared.tick(0.9 + left_s)
    owners = [owner for owner, _ in expired]
    said = {fields["expired_owner"]: fields["groups"] for _, fields in told.events}
    assert said == {owner: owners.count(owner) for owner in owners}
    assert told.shared.wait_s(2.0) is None
    told.shared.tick(100.0)
    assert len(told.events) == len(said)


def test_at_the_end_nothing_is_kept_back() -> None:
    told = Told()
    told.shared.add_report(ran_out("h:1:a"), 5.0)
    told.shared.tick(0.0, is_last=True)
    assert told.events == [("leases expired", {"groups": 1, "expired_owner": "h:1:a"})]


def test_of_leases_that_expired_the_message_that_was_begun_most_often_is_named() -> None:
    told = Told()
    for group, attempts in (("a", 0), ("b", 2), ("c", 1)):
        told.shared.add_report(ran_out("h:1:a", group, attempts), 5.0)
    told.shared.tick(0.0, is_last=True)
    assert told.events == [
        ("leases expired", {"groups": 3, "expired_owner": "h:1:a", "group": ["b"], "id": "m", "attempt": 2})
    ]


def test_a_consumer_that_dies_while_the_server_is_away_neither_ends_nor_repeats_the_incident() -> None:
    told = Told()
    told.shared.add_report(lost(1), 1.0)
    told.shared.forget(1)
    told.shared.add_report(lost(2), 2.0)
    assert told.names == ["server lost"], "the same incident"
    told.shared.forget(2)
    told.shared.add_report({"event": "started", "pid": 3, "owner": "x"}, 5.0)
    assert told.events[1:] == [("server back", {"away_s": 4.0})], "it reached the server at once"
    told.shared.add_report({"event": "started", "pid": 4, "owner": "x"}, 6.0)
    assert len(told.events) == 2
