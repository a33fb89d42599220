"""Names, groups and shards: what may be a key, and that no two groups share one."""

from __future__ import annotations

import enum
import uuid
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.crc import key_slot

from sequencer.errors import ConfigurationError, InvalidGroup, shown
from sequencer.store.group import MAX_GROUP_BYTES, decode_group, encode_group, shard_of
from sequencer.store.keys import shard_keys
from sequencer.store.registration import SLOTS, plain_tags, slot_of, spread_tags
from sequencer.values.checks import check_name

from ..support.refused import refused

TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
PART = TEXT | st.integers() | st.uuids()
GROUP = st.lists(PART, min_size=1, max_size=4)


@given(GROUP)
def test_a_group_comes_back_as_its_parts_in_text(group: list[Any]) -> None:
    assert decode_group(encode_group(group)) == tuple(str(part) for part in group)


@given(GROUP, GROUP)
def test_two_groups_share_a_key_only_if_their_parts_are_the_same_text(a: list[Any], b: list[Any]) -> None:
    assert (encode_group(a) == encode_group(b)) == ([str(p) for p in a] == [str(p) for p in b])


def test_a_number_equals_its_text_and_one_part_may_stand_alone() -> None:
    some = uuid.UUID(int=7)
    assert encode_group([1002]) == encode_group(["1002"]) == encode_group(1002) == "1002"
    assert encode_group([some]) == encode_group(str(some))


def test_a_member_of_a_text_enum_is_its_value() -> None:
    class Kind(str, enum.Enum):  # noqa: UP042 - the older spelling, whose str() is "Kind.order"
        order = "order"

    assert encode_group([Kind.order]) == "order"


@pytest.mark.parametrize(
    "group",
    [
        *(None, [], ["a", ""], "", [None], [True], True, [1.5], [b"a"], [["a"]], {"a": 1}, {"a"}, ["\ud800"]),
        *(["x" * (MAX_GROUP_BYTES + 1)], ["é" * 257], ["x" * 500, "y" * 13], [10**5000]),
    ],
    ids=shown,
)
def test_a_bad_group_is_refused(group: Any) -> None:
    with refused(InvalidGroup, "identifier_invalid", name="group", most=MAX_GROUP_BYTES):
        encode_group(group)
    assert len(encode_group(["x" * MAX_GROUP_BYTES])) == MAX_GROUP_BYTES


@pytest.mark.parametrize("name", ["", "a b", "a:b", "{a}", "a\n", "ä", "x" * 129, None, 7, "a/b"])
def test_a_bad_name_is_refused(name: Any) -> None:
    with refused(ConfigurationError, "name_invalid", name="queue", value=name):
        check_name("queue", name)


def test_all_keys_of_a_shard_share_its_hash_tag_and_end_with_the_group() -> None:
    keys = shard_keys("ns", "q", 3)
    group = encode_group(["{x}", "y"])
    for key in (keys.schedule, keys.leases, keys.failures, keys.clock, keys.dispatch, keys.stats):
        assert key.startswith("{ns:q:3}:")
    assert (keys.watermarks_old, keys.dedup_old) == ("{ns:q:3}:watermarks:old", "{ns:q:3}:dedup:old")
    for key in (keys.order(group), keys.body(group)):
        assert key[: key.index("}") + 1] == "{ns:q:3}"
        assert key.endswith(group)


def busiest(tags: Sequence[str], queue: str, primaries: int) -> float:
    """How many times the mean of all primaries the busiest one has, where each has an equal range of hash slots."""
    counts = Counter(slot_of("sequencer", queue, tag) * primaries // SLOTS for tag in tags)
    return max(counts.values()) * primaries / len(tags)


@pytest.mark.parametrize("primaries", [3, 5, 10])
def test_spread_tags_share_out_shards_evenly_among_primaries(primaries: int) -> None:
    names = [f"orders-{n}" for n in range(60)]
    assert max(busiest(spread_tags("sequencer", name, 16), name, primaries) for name in names) <= 1.25
    assert max(busiest(plain_tags(16), name, primaries) for name in names) > 1.5, "the check sees plain tags"


@pytest.mark.parametrize("shards", [1, 2, 16, 64])
def test_spread_tags_stay_what_they_are(shards: int) -> None:
    tags = spread_tags("sequencer", "orders", shards)
    assert tags[0] == "0"
    assert [tag.partition(".")[0] for tag in tags] == [*plain_tags(shards)]
    assert tags[1:2] == {1: (), 2: ("1.3",), 16: ("1.48",), 64: ("1.331",)}[shards]


def test_a_slot_is_the_one_that_a_cluster_reckons() -> None:
    assert slot_of("sequencer", "orders", "0") == key_slot(shard_keys("sequencer", "orders", 0).schedule.encode())


def test_shards_stay_where_they_are() -> None:
    """A change of the hash would move groups away from their messages."""
    assert [shard_of(group, 8) for group in ("1002:2302393013", "a", "é")] == [5, 3, 6]
