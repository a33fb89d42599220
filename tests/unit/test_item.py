"""What a caller passes is checked without a server, as far as it needs none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sequencer import Sequencer
from sequencer.errors import BatchRefused, InvalidMessage, InvalidScore, ServerUnavailable
from sequencer.settings.options import QueueOptions
from sequencer.store.item import ItemMaker

NOWHERE = "redis://127.0.0.1:1"
BAD: list[dict[str, Any]] = [
    {"body": 1, "group": []},
    {"body": float("nan"), "group": "g"},
    {"body": 1, "group": "g", "id": ""},
    {"body": 1, "group": "g", "score": float("inf")},
    {"body": 1, "group": "g", "headers": {"a": b"b"}},
    {"body": 1, "group": "g", "delay": -1},
]


@pytest.mark.parametrize("fields", BAD, ids=str)
def test_what_breaks_a_rule_is_said_where_no_server_is(fields: dict[str, Any]) -> None:
    with Sequencer("q", NOWHERE) as seq:
        with pytest.raises(InvalidMessage):
            seq.append(**{"group": None, **fields})
        with pytest.raises(BatchRefused):
            seq.append_many([fields])
        assert seq.append_many([]).appended == 0
        with pytest.raises(ServerUnavailable):
            seq.append(1, group="g")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"score": 7}, "7"),
        ({"score": 7, "id": "own"}, "own"),
        ({}, InvalidScore),
        ({"score": 7.5}, InvalidScore),
        ({"score": -1}, InvalidScore),
    ],
)
def test_the_number_of_a_sequence_is_its_id_unless_one_is_given(given: dict[str, Any], expected: Any) -> None:
    maker = ItemMaker(QueueOptions(queue="q"))
    ways: list[Callable[[bool], Any]] = [
        lambda is_sequence: maker.make(1, "g", given.get("id"), given.get("score"), None, is_sequence=is_sequence),
        lambda is_sequence: maker.make_of({"body": 1, "group": "g", **given}, is_sequence=is_sequence),
    ]
    for make in ways:
        assert make(False).id != "7"
        if isinstance(expected, str):
            assert make(True).id == expected
        else:
            with pytest.raises(expected):
                make(True)
