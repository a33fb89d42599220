"""What all consumers report is told once: when it begins, and when it is over."""

from __future__ import annotations

from typing import Any

from sequencer.processes.shared_reports import SharedReports


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


def test_nobody_is_said_to_be_back_who_was_not_lost() -> None:
    told = Told()
    told.shared.add_report(back(1), 1.0)
    told.shared.forget(1)
    assert told.names == []


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
