"""`append_many` on a real server: chunks, each stored as a whole or not at all."""

from __future__ import annotations

from typing import Any

import pytest

from sequencer import Sequencer
from sequencer.errors import BatchRefused, ConfigurationError, IdConflict

from ..support.refused import refused


def test_any_number_is_streamed_in_chunks(seq: Sequencer) -> None:
    receipt = seq.append_many(({"body": n, "group": n % 7, "score": n} for n in range(2501)), chunk=400)
    assert (receipt.appended, receipt.duplicates, receipt.refused) == (2501, 0, [])
    assert seq.info().backlog == 2501


def test_nothing_is_taken_from_an_iterator_behind_a_chunk_that_is_refused(seq: Sequencer) -> None:
    seq.append("other", group=0, id=500)
    items = iter([{"body": n, "group": 0, "id": n} for n in range(2501)])
    with refused(BatchRefused, "batch_refused", stored=400) as caught:
        seq.append_many(items, chunk=400)
    assert [one.error.id for one in caught.value.refused] == ["500"]
    assert next(items)["id"] == 800


def test_append_many_stops_at_a_chunk_with_a_bad_item_and_stores_nothing_of_it(seq: Sequencer) -> None:
    items: list[Any] = [{"body": n, "group": "g", "id": n} for n in range(25)]
    items[13] = {"body": 1, "group": []}
    items[17] = "nonsense"
    with pytest.raises(BatchRefused) as caught:
        seq.append_many(items, chunk=10)
    assert [refused.index for refused in caught.value.refused] == [13, 17]
    assert caught.value.stored == 10
    assert [message.id for message in seq.peek("g", limit=50)] == [str(n) for n in range(10)]


def test_append_many_stores_nothing_of_a_chunk_with_a_conflict(seq: Sequencer) -> None:
    seq.append("old", group="g", id="5", score=1)
    items = [{"body": "new", "group": g, "id": str(n), "score": n} for n in range(10) for g in ("g", "h")]
    with pytest.raises(BatchRefused):
        seq.append_many(items)
    assert [message.body for message in seq.peek("g")] == ["old"]
    assert seq.peek("h") == []
    receipt = seq.append_many(items, on_refused="skip")
    assert (receipt.appended, [refused.index for refused in receipt.refused]) == (19, [10])
    assert isinstance(receipt.refused[0].error, IdConflict)
    again = seq.append_many(items, on_refused="skip")
    assert (again.appended, again.duplicates, len(again.refused)) == (0, 19, 1)


def test_an_id_twice_in_one_chunk_is_stored_once(seq: Sequencer) -> None:
    same = {"body": 1, "group": "g", "id": "x"}
    receipt = seq.append_many([same, same, {**same, "group": "h"}])
    assert (receipt.appended, receipt.duplicates) == (2, 1)
    with pytest.raises(BatchRefused):
        seq.append_many([{"body": 1, "group": "i", "id": "x"}, {"body": 2, "group": "i", "id": "x"}])
    assert seq.peek("i") == []


@pytest.mark.parametrize("options", [{"on_refused": "ignore"}, {"chunk": 0}, {"chunk": 1001}])
def test_bad_options_of_append_many_are_refused(seq: Sequencer, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        seq.append_many([], **options)


@pytest.mark.parametrize("delayed", [{0}, {0, 3, 9}, set(range(10))])
@pytest.mark.parametrize("groups", [1, 3])
def test_each_message_of_a_chunk_keeps_its_own_time(seq: Sequencer, delayed: set[int], groups: int) -> None:
    at = 4e9
    items = [{"group": n % groups, "id": n, "body": n, **({"at": at + n} if n in delayed else {})} for n in range(10)]
    assert seq.append_many(items).appended == 10
    for group in range(groups):
        found = {m.body: m.score for m in seq.peek(group, limit=10)}
        assert sorted(found) == list(range(group, 10, groups))
        for n, score in found.items():
            assert (score == at + n) is (n in delayed)
    if rest := 10 - len(delayed):
        assert seq.consume(lambda _: None, max_messages=rest).handled == rest
    assert sorted(m.body for g in range(groups) for m in seq.peek(g, limit=10)) == sorted(delayed)


def test_an_error_in_a_later_chunk_does_not_hide_what_became_of_the_one_before(seq: Sequencer) -> None:
    """The next chunk is made while the server works on this one."""

    class Broken(dict[str, Any]):
        def __contains__(self, name: object) -> bool:
            raise LookupError("mine")

    seq.append("old", group="g", id="x")
    conflict, broken = {"body": "new", "group": "g", "id": "x"}, Broken(body=1, group="g")
    with pytest.raises(BatchRefused):
        seq.append_many([conflict, broken], chunk=1)
    with pytest.raises(LookupError, match="mine"):
        seq.append_many([{"body": 1, "group": "h"}, broken], chunk=1)
    assert [message.body for message in seq.peek("h")] == [1], "the chunk before it is stored"
