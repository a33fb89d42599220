"""Lists by pages, on a real server: groups by state, dead letters, consumers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from sequencer import Message, Sequencer
from sequencer.errors import ConfigurationError
from sequencer.net.link import Link
from sequencer.queue.dead_letters import listed as listed_letters
from sequencer.queue.groups import listed
from tests.support.command_counts import commands_of
from tests.support.handling import Make, fail
from tests.support.refused import refused

COUNTS: dict[Any, int] = {"due": 12, "waiting": 11, "leased": 12, "parked": 11, "paused": 14, None: 60}


@pytest.fixture
def full(make: Make) -> Iterator[Sequencer]:
    """Twelve groups in each state, of which one that is parked and one that waits are paused besides."""
    seq = make(max_attempts=1, shards=4)
    with ExitStack() as leases:
        for state in ("leased", "paused", "parked", "waiting", "due"):
            delay = {"delay": 60} if state == "waiting" else {}
            seq.append_many({"body": 1, "group": f"{state}{n}", **delay} for n in range(12))
            if state == "leased":
                while lease := seq.claim(groups=12, lease=60):
                    leases.enter_context(lease)
            for n in range(12) if state == "paused" else ():
                seq.pause(f"paused{n}")
            if state == "parked":
                seq.consume(fail, max_messages=12)
        for name in ("parked11", "waiting11"):
            seq.pause(name)
        yield seq


def pages(read: Callable[..., Any], *args: Any, **how: Any) -> Iterator[list[Any]]:
    after, is_first = None, True
    while is_first or after is not None:
        page = read(*args, after=after, **how)
        yield page.items
        after, is_first = page.after, False


def test_every_group_of_a_state_comes_once_by_pages(full: Sequencer) -> None:
    for state, count in COUNTS.items():
        for limit in (1, 5, 500):
            found = [info for page in pages(full.group_page, state, limit=limit) for info in page]
            assert (state, len(found), len({info.group for info in found})) == (state, count, count)
            assert {info.state for info in found} == ({state} if state else {*COUNTS} - {None})
        assert [one.group for one in full.groups(state)] == [one.group for one in found]
        following = full.groups(state, after=found[2].place, limit=4)
        assert [one.group for one in following] == [one.group for one in found[3:7]]
    seen = full.consumers()
    assert sum(one.groups for one in seen.working) == 12
    assert all(one.group[0].startswith("leased") and not one.is_long for one in seen.working)
    assert seen.connections == 0


def test_a_page_on_which_few_fit_is_short_and_goes_on(seq: Sequencer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listed, "LOOKED", 6)
    for n in range(20):
        seq.append(1, group=str(n))
    for n in range(19):
        seq.pause(str(n))
    found = [[info.group for info in page] for page in pages(seq.group_page, "due", limit=3)]
    assert found == [[], [], [], [("19",)]]


def test_a_page_asks_the_same_few_commands_in_a_queue_of_any_size(make: Make, link: Link) -> None:
    asked = []
    for count in (400, 4000):
        seq = make(f"q{count}", shards=4)
        seq.append_many({"body": 1, "group": f"g{n:04}"} for n in range(count))
        middle = seq.groups("due", limit=count // 2)[-1].place
        asked.append(commands_of(link, lambda: seq.group_page("due", after=middle, limit=50)).total())  # noqa: B023
    assert asked[0] == asked[1] < 50 * 3 + 40


def test_dead_letters_come_once_by_pages_the_newest_first(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    seq = make(shards=3, max_attempts=1, on_failure="dead_letter")

    def handle(message: Message) -> None:
        raise (KeyError if message.body % 5 == 0 else ValueError)("x")

    seq.append_many({"body": n, "group": f"g{n % 3}", "id": n} for n in range(23))
    seq.consume(handle, until_empty=True)
    found = [*pages(seq.dead_page, limit=5)]
    assert [len(page) for page in found] == [5, 5, 5, 5, 3]
    newest = [letter for page in found for letter in page]
    assert sorted(newest, key=lambda one: -one.died_at) == newest
    assert {letter.message.body for letter in newest} == {*range(23)}
    oldest = seq.dead(limit=7)
    assert oldest == newest[:-8:-1]
    assert seq.dead(after=oldest[-1].place, limit=2) == newest[-8:-10:-1]
    chosen = [letter.message.body for page in pages(seq.dead_page, error="KeyError", limit=4) for letter in page]
    assert sorted(chosen) == [0, 5, 10, 15, 20]
    assert [letter.message.id for letter in seq.dead("g1", id=4)] == ["4"]
    monkeypatch.setattr(listed_letters, "NAMES_PAGE", 10)
    monkeypatch.setattr(listed_letters, "LOOKED", 10)
    assert [len(page) for page in pages(seq.dead_page, error="none", limit=4)] == [0, 0, 0]


@pytest.mark.parametrize("after", ["", "1", "x,g", "nan,g", 5])
def test_what_is_no_place_is_refused(seq: Sequencer, after: Any) -> None:
    for read in (seq.group_page, seq.dead_page):
        with refused(ConfigurationError, "place_invalid", value=after):
            read(after=after)
    with refused(ConfigurationError, "not_whole", name="limit"):
        seq.group_page(limit=501)
