"""info, groups and peek over a net that answers from a list: pages, shards, samples, rates."""

from __future__ import annotations

from typing import Any

import pytest

from sequencer.errors import ConfigurationError, ServerNotUsable
from sequencer.queue import counts
from sequencer.queue.counts import info
from sequencer.queue.groups.listed import groups, parked
from sequencer.queue.views import peek

from ..support.listed_net import ListedNet, ListedSession, run

NOW = 1_700_000_100_000_000
TIME = [[b"1700000100", b"0"]]
STAMP = b"1700000097000000"
LEASE = b"1700000098000000" + b"1host-7"
NO_LEASES = [[b"0", []]]
HIDDEN = ServerNotUsable("no permission")
"""The answer to one who may not see whether anybody consumes."""


def session_of(*answers: Any) -> Any:
    return ListedSession(ListedNet(*answers, now=10.0))


@pytest.mark.parametrize(
    ("operation", "given", "options", "name"),
    [
        (groups, [], {"limit": 0}, "limit"),
        (groups, ["gone"], {}, "state"),
        (parked, [], {"limit": 1.0}, "limit"),
        (peek, ["g"], {"limit": True}, "limit"),
    ],
)
def test_a_wrong_argument_asks_nothing_of_the_server(
    operation: Any, given: list[Any], options: dict[str, Any], name: str
) -> None:
    session = session_of()
    with pytest.raises(ConfigurationError) as caught:
        run(operation(session, *given, **options))
    assert caught.value.fields["name"] == name
    assert not session.net.asked


def counted(size: int = 0, due: int = 0, **stats: int) -> list[Any]:
    words = [word for name, count in stats.items() for word in (name.encode(), str(count).encode())]
    return [size, due, 0, 0, words, 2, [None, None, None], [None, None, None], b"170", 0]


def test_a_group_that_is_claimed_between_two_counts_makes_none_negative() -> None:
    leases = [[b"0", [b"g", LEASE]]]
    session = session_of(TIME, counted(1, 1), leases, [[str(NOW + 9).encode()]], [[b"g", b"5"]], [1, []])
    found = run(info(session))
    assert (found.groups, found.due, found.leased, found.waiting) == (1, 1, 1, 0)


def test_a_large_queue_is_estimated_from_a_spread_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts, "EXACT_GROUPS", 4)
    monkeypatch.setattr(counts, "PAGE", 2)
    page = [[[b"a", b"5", b"b", b"6"]], [3, [STAMP + b"m"], 1, [STAMP + b"m"]]]
    session = session_of(TIME, counted(20, 20), NO_LEASES, *page, *page, HIDDEN)
    found = run(info(session))
    ranges = [words[2:] for words in session.net.asked if words[0] == "ZRANGE" and words[2:] != (0, 0)]
    assert ranges == [(0, 1, "WITHSCORES"), (10, 11, "WITHSCORES")]
    assert (found.backlog, found.is_estimate) == (40, True)


def test_rates_come_from_two_looks_by_the_clock_of_the_net() -> None:
    looks = [[TIME, counted(appended=done, handled=done // 2), NO_LEASES] for done in (10, 30, 20)]
    session = session_of(*[answer for look in looks for answer in look])
    first = run(info(session))
    session.net.time += 4.0
    second = run(info(session))
    session.net.time += 1.0
    third = run(info(session))
    assert (first.append_rate, second.append_rate, second.handle_rate) == (None, 5.0, 2.5)
    assert (third.append_rate, third.handle_rate) == (0.0, 0.0), "totals went back: the server lost data"
