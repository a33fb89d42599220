"""The audit as an operation: which pages it asks for, and what it makes of entries that nobody of ours wrote."""

from __future__ import annotations

from typing import Any

import pytest

from sequencer.errors import DataError
from sequencer.queue.audit import prove_shards
from sequencer.store.keys import shard_keys

from ..support.listed_net import ListedNet, run

SHARDS = [shard_keys("n", "q", shard) for shard in range(2)]
STREAM = SHARDS[1].audit
FACTS = [b"length", 3, b"last-generated-id", b"7-0", b"entries-added", 5]


def entry(name: str, id: str, score: int) -> list[Any]:
    """A run under a token of its own, which began when the one before had ended."""
    fields = {"group": "g", "id": id, "score": score, "stamp": score, "token": 10 * score}
    fields |= {"began": 10 * score, "ended": 10 * score + 5, "redriven": 0, "refused": 0}
    return [name.encode(), [str(word).encode() for pair in fields.items() for word in pair]]


def test_it_reads_page_by_page_what_is_there_when_it_begins() -> None:
    pages = [[entry("5-0", "a", 1), entry("6-0", "b", 2)]], [[entry("7-0", "c", 3)]]
    net = ListedNet([0], [1], [FACTS], *pages)
    report = run(prove_shards(net, SHARDS, page=2))
    assert (report.messages, report.groups, report.is_trimmed, report.case) == (3, 1, True, None)
    assert net.asked[0] == ("EXISTS", SHARDS[0].audit)
    assert [words[2:] for words in net.asked if words[0] == "XRANGE"] == [
        (b"-", b"7-0", "COUNT", 2),
        (b"(6-0", b"7-0", "COUNT", 2),
    ]


@pytest.mark.parametrize("answer", [[[[b"7-0", None]]], [[[b"7-0", [b"odd"]]]], [[[b"\xff", []]]], [[[b"7-0", []]]]])
def test_an_entry_that_nobody_of_ours_wrote_is_said_so(answer: list[Any]) -> None:
    with pytest.raises(DataError):
        run(prove_shards(ListedNet([1], [FACTS], answer), SHARDS[1:]))


def test_a_stream_that_can_not_be_described_is_said_so() -> None:
    with pytest.raises(DataError):
        run(prove_shards(ListedNet([1], [[b"length", 3]]), SHARDS[1:]))
