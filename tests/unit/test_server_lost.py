"""What all consumers report is told once: when it begins, and when it is over."""

from __future__ import annotations

from typing import Any

from sequencer.consume.emitter import ServerAway


class Told:
    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.away = ServerAway(lambda name, **fields: self.events.append((name, fields)))

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.events]


def test_a_server_that_is_away_is_told_once_and_that_it_is_back() -> None:
    told = Told()
    for pid in range(40):
        told.away.lost("refused", "unreachable", 10.0 + pid / 100, pid)
    told.away.lost("refused", "unreachable", 11.0, 3)
    assert told.names == ["server lost"]
    for pid in range(40):
        assert told.names == ["server lost"]
        told.away.back(22.5, pid)
    assert told.events[1:] == [("server back", {"away_s": 12.5})]
    told.away.lost("refused", "unreachable", 30.0, 1)
    assert told.names == ["server lost", "server back", "server lost"], "a new outage is a new incident"


def test_who_ended_is_not_waited_for() -> None:
    told = Told()
    told.away.lost("refused", "unreachable", 1.0, 1)
    told.away.lost("refused", "unreachable", 1.0, 2)
    told.away.forget(1)
    told.away.back(2.0, 2)
    assert told.names == ["server lost", "server back"]


def test_nobody_is_said_to_be_back_who_was_not_lost() -> None:
    told = Told()
    told.away.back(1.0, 1)
    told.away.forget(1)
    assert told.names == []


def test_a_consumer_that_dies_while_the_server_is_away_neither_ends_nor_repeats_the_incident() -> None:
    told = Told()
    told.away.lost("refused", "unreachable", 1.0, 1)
    told.away.forget(1)
    told.away.lost("refused", "unreachable", 2.0, 2)
    assert told.names == ["server lost"], "the same incident"
    told.away.forget(2)
    told.away.back(5.0, 3)
    assert told.events[1:] == [("server back", {"away_s": 4.0})], "it reached the server at once"
    told.away.back(6.0, 4)
    assert len(told.events) == 2


def test_another_kind_of_reason_is_told_and_the_same_one_is_not() -> None:
    told = Told()
    for now, code in enumerate(("unreachable", "is_loading", "unreachable", "is_loading")):
        told.away.lost(code, code, now)
    told.away.back(5.0)
    told.away.lost("unreachable", "unreachable", 6.0)
    codes = [fields.get("code") for _, fields in told.events]
    assert codes == ["unreachable", "is_loading", None, "unreachable"]
