"""Pages by place: what stays comes once, whatever comes and goes between two pages and between two round trips."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sequencer.errors import ConfigurationError
from sequencer.queue import places
from sequencer.queue.consumers import consumers
from sequencer.queue.dead_letters.listed import dead, dead_page
from sequencer.queue.groups import listed
from sequencer.queue.groups.listed import group_page, groups
from sequencer.store.failure import encode_failure
from sequencer.store.keys import PAUSED, ShardKeys, shard_keys
from sequencer.values.message import Failure
from sequencer.values.views import ConsumerInfo

from ..support.listed_net import ListedSession, run
from ..support.refused import refused
from ..support.stored_net import NOW, StoredNet

SHARDS = [shard_keys("n", "q", number) for number in range(4)]
LEASE = b"%d1host:7:abc"

MEMBER = st.integers(0, 60).map(lambda number: b"g%02d" % number)
SCORE = st.sampled_from([1.0, 2.0, 3.5, math.inf])
"""Few, so that many members have the same."""
Changes = list[tuple[set[bytes], dict[bytes, float]]]
"""Before each round trip: who goes, and who comes or moves."""


def shard_with(member: bytes) -> ShardKeys:
    return SHARDS[member[-1] % 4]


def changing(net: StoredNet, changes: Changes, name: str = "schedule") -> None:
    """Let others change the sorted sets before each round trip."""
    left = iter(changes)

    def change() -> None:
        for gone, come in islice(left, 1):
            for member in gone:
                net.sorted[getattr(shard_with(member), name)].pop(member, None)
            for member, score in come.items():
                net.sorted[getattr(shard_with(member), name)][member] = score

    net.between = change


def stored(members: dict[bytes, float], name: str = "schedule") -> StoredNet:
    net = StoredNet()
    for member, score in members.items():
        net.sorted[getattr(shard_with(member), name)][member] = score
    return net


def session_of(net: StoredNet) -> Any:
    return ListedSession(net, shards=4)  # type: ignore[arg-type]


def pages(session: Any, read: Any, **how: Any) -> Iterator[list[Any]]:
    after = None
    while True:
        page = run(read(session, after=after, **how))
        yield page.items
        after = page.after
        if after is None:
            return


def check_once(members: dict[bytes, float], changes: Changes, size: int, *, backwards: bool, slack: int = 1) -> None:
    """Those that stay come once and in order; the others may come or not."""
    moved = {member for gone, come in changes for member in {*gone, *come}}
    net = stored(members)
    changing(net, changes)
    named, place = list[tuple[float, bytes]](), (math.inf, b"\xff") if backwards else places.FIRST
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(places, "SLACK", slack)
        while rows := run(places.rows_behind(net, SHARDS, "schedule", place, size, backwards=backwards)):
            named += [row.place for row in rows]
            place = named[-1]
    stays = {(score, member) for member, score in members.items() if member not in moved}
    assert [one for one in named if one in stays] == sorted(stays, reverse=backwards)
    assert named == sorted(set(named), reverse=backwards)


CHURN = st.tuples(st.sets(MEMBER, max_size=12), st.dictionaries(MEMBER, SCORE, max_size=12))
SCHEDULES = st.dictionaries(MEMBER, SCORE, max_size=50)


@pytest.mark.slow
@given(SCHEDULES, st.lists(CHURN, max_size=30), st.integers(1, 9), st.booleans())
def test_who_stays_comes_once_while_others_come_and_go(
    members: dict[bytes, float], changes: Changes, size: int, backwards: bool
) -> None:
    check_once(members, changes, size, backwards=backwards)


def test_a_control_that_pages_by_offset_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    members = {b"g%02d" % number: float(number) for number in range(40)}
    changes: Changes = [(set(), {})] * 20 + [({b"g%02d" % number for number in range(9)}, {})]
    check_once(members, changes, 4, backwards=False)
    read = [0]

    async def by_offset(net: Any, key: str, place: Any, size: int, **_: Any) -> list[Any]:
        page = await net.read([("ZRANGE", key, read[0] // 4 * size, read[0] // 4 * size + size - 1, "WITHSCORES")])
        read[0] += 1
        return [(float(score), member) for member, score in zip(page[0][::2], page[0][1::2], strict=True)]

    monkeypatch.setattr(places, "behind", by_offset)
    with pytest.raises(AssertionError):
        check_once(members, changes, 4, backwards=False)


def test_a_place_of_which_nothing_is_left_is_found_in_a_few_reads_among_many_of_its_score() -> None:
    net = stored({b"g%05d" % number: math.inf for number in range(4000)})
    place = (math.inf, b"g02000-gone")
    rows = run(places.rows_behind(net, SHARDS, "schedule", place, 3))
    assert [row.member for row in rows] == [b"g02001", b"g02002", b"g02003"]
    assert len(net.asked) < 4 * 16
    assert max(words[3] - words[2] for words in net.asked if words[0] == "ZRANGE") < 30


# -- groups by state ----------------------------------------------------------------------------------------------


def queue() -> StoredNet:
    """Twelve groups, in each state."""
    visible = {"due": NOW - 5.0, "waiting": NOW + 9e6, "leased": NOW + 5e6, "parked": math.inf, "paused": PAUSED}
    net = stored({f"{state}{n}".encode(): at for state, at in visible.items() for n in range(12)})
    for n in range(12):
        for name in (b"leased%d" % n, b"due%d" % n):  # the leases of those that are due ran out
            net.hashes[shard_with(name).leases][name] = LEASE % (NOW - 10**6 * n)
        for name in (b"parked%d" % n, b"waiting%d" % n):
            if n == 11:  # no claim has met them
                net.sets[shard_with(name).paused].add(name)
    return net


@pytest.mark.parametrize(
    ("state", "count"), [("due", 12), ("waiting", 11), ("leased", 12), ("parked", 11), ("paused", 14), (None, 60)]
)
@pytest.mark.parametrize("limit", [1, 5, 500])
def test_every_group_of_a_state_comes_once_by_pages(state: Any, count: int, limit: int) -> None:
    session = session_of(queue())
    found = [info for page in pages(session, group_page, state=state, limit=limit) for info in page]
    assert (len(found), len({info.group for info in found})) == (count, count)
    assert {info.state for info in found} == ({state} if state else {"due", "waiting", "leased", "parked", "paused"})
    assert run(groups(session, state)) == found
    assert run(groups(session, state, after=found[2].place, limit=4)) == found[3:7]


def test_a_page_on_which_few_fit_is_short_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listed, "LOOKED", 6)
    net = stored({b"g%d" % n: NOW - 50.0 + n for n in range(20)})
    for n in range(19):
        net.sets[shard_with(b"g%d" % n).paused].add(b"g%d" % n)
    found = [[info.group for info in page] for page in pages(session_of(net), group_page, state="due", limit=3)]
    assert found == [[], [], [], [("g19",)]]


def test_a_page_asks_the_same_few_commands_in_a_queue_of_any_size() -> None:
    asked = []
    for count in (400, 4000):
        net = stored({b"g%d" % n: NOW - n for n in range(count)})
        run(group_page(session_of(net), "due", after=f"{NOW - count // 2},g9", limit=50))
        asked.append(len(net.asked))
    assert asked[0] == asked[1] < 50 * 3 + 40


@pytest.mark.parametrize("after", ["", "1", "x,g", "nan,g", 5])
def test_what_is_no_place_is_refused(after: Any) -> None:
    for read in (group_page, dead_page):
        with refused(ConfigurationError, "place_invalid", value=after):
            run(read(session_of(StoredNet()), after=after))
    with refused(ConfigurationError, "not_whole", name="limit"):
        run(group_page(session_of(StoredNet()), limit=501))


# -- dead letters -------------------------------------------------------------------------------------------------


def letters(count: int) -> StoredNet:
    net = StoredNet()
    for n in range(count):
        name = b"1700000000000000g%d\nm%d" % (n % 3, n)
        keys = SHARDS[n % 3]
        error = encode_failure(Failure("x", "KeyError" if n % 5 == 0 else "ValueError", "", "", 1, 0.0, ""), "")
        net.sorted[keys.dead][name] = 1e6 * n
        net.hashes[keys.dead_letters][name] = b"7\n%b\n17000000000000000001A[1]" % error
    return net


def test_dead_letters_come_once_by_pages_the_newest_first() -> None:
    session = session_of(letters(23))
    found = [[letter.died_at for letter in page] for page in pages(session, dead_page, limit=5)]
    assert [len(page) for page in found] == [5, 5, 5, 5, 3]
    assert [at for page in found for at in page] == [float(n) for n in reversed(range(23))]
    oldest = run(dead(session, limit=7))
    assert [letter.died_at for letter in oldest] == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    assert [letter.died_at for letter in run(dead(session, after=oldest[-1].place, limit=2))] == [7.0, 8.0]


def test_of_many_dead_letters_a_page_reads_its_own_and_leaves_out_what_goes_meanwhile() -> None:
    net = letters(300)
    del net.hashes[SHARDS[1].dead_letters][b"1700000000000000g1\nm1"]
    assert [letter.message.id for letter in run(dead(session_of(net), limit=2))] == ["m0", "m2"]
    assert sum(len(words) - 1 for name, *words in net.asked if name == "HMGET") <= 4


def test_dead_letters_are_chosen_by_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    session = session_of(letters(30))
    found = [letter.message.id for page in pages(session, dead_page, error="KeyError", limit=4) for letter in page]
    assert found == ["m25", "m20", "m15", "m10", "m5", "m0"]
    assert [letter.message.id for letter in run(dead(session, "g1", id="m4"))] == ["m4"]
    monkeypatch.setattr("sequencer.queue.dead_letters.listed.NAMES_PAGE", 10)
    monkeypatch.setattr("sequencer.queue.dead_letters.listed.LOOKED", 10)
    assert [len(page) for page in pages(session, dead_page, error="none", limit=4)] == [0, 0, 0, 0]


# -- consumers ----------------------------------------------------------------------------------------------------


def test_consumers_and_what_each_holds_longest() -> None:
    net = queue()
    net.hashes[shard_with(b"leased0").leases][b"leased0"] = b"%d1other:8:abc" % (NOW - 10**9)
    line = "id=1 addr=10.0.0.%d:5 name=sequencer:n:%s age=9 idle=1 cmd=ping"
    net.clients = "\n".join([line % (1, "q"), line % (2, "q"), line % (3, "other")]).encode()
    found = run(consumers(session_of(net)))
    assert found.working == [
        ConsumerInfo("other:8:abc", 1, ("leased0",), 1000.0, True),
        ConsumerInfo("host:7:abc", 11, ("leased11",), 11.0, False),
    ]
    assert found.connections == 2
