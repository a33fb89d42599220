"""Fields of a body that make group, id and score: dotted paths, and what the queue remembers of their names."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sequencer import Sequencer
from sequencer.errors import (
    BatchRefused,
    ConfigurationError,
    DataError,
    InvalidBody,
    InvalidGroup,
    InvalidId,
    InvalidMessage,
    InvalidScore,
    ServerUnavailable,
)
from sequencer.queue.session import Session
from sequencer.settings.body_fields import BODY_FIELDS, BodyFields, merge_fields, read_fields, write_fields
from sequencer.settings.options import QueueOptions
from sequencer.store.item import ItemMaker
from sequencer.store.keys import shard_keys
from sequencer.testing import MemoryQueue

from ..support.listed_net import ListedNet, run
from ..support.model.clients import connected, made
from ..support.refused import refused

NAME = st.text("ab.é", min_size=1, max_size=4)
BODY = st.recursive(st.integers(0, 9), lambda inner: st.dictionaries(NAME, inner, max_size=3), max_leaves=8)
SOME = st.none() | st.text(min_size=1, max_size=5)
NAMED = st.builds(BodyFields, st.none() | st.lists(st.text(min_size=1), min_size=1).map(tuple), SOME, SOME)


def maker(**options: Any) -> ItemMaker:
    return ItemMaker(QueueOptions(queue="q", **options))


# -- paths ------------------------------------------------------------------------------------------------------


def by_parts(body: Any, path: str) -> Any:
    for name in path.split("."):
        body = body.get(name) if isinstance(body, dict) else None
    return body


@given(st.dictionaries(NAME, BODY, max_size=3), NAME)
def test_a_dotted_path_leads_to_the_field_that_its_parts_name(body: dict[str, Any], path: str) -> None:
    wanted = body[path] if path in body else by_parts(body, path)
    make = maker(group_by=("key",), id_by=path)
    try:
        item = make.make({"key": 1, **body}, None, None, None, None, is_sequence=False)
    except InvalidId:
        assert not isinstance(wanted, int)
    else:
        assert item.id == str(wanted)


@pytest.mark.parametrize(
    ("body", "within", "has"),
    [
        ({"user": {"name": "ann"}}, "user", ["name"]),
        ({"user": 7}, "user", []),
        ({"id": 7}, "", ["id"]),
        ({"user.id": None}, "", ["user.id"]),
    ],
)
def test_a_field_that_is_not_there_is_named_with_what_is(body: Any, within: str, has: list[str]) -> None:
    with refused(InvalidGroup, "field_missing", field="user.id", within=within, has=has):
        maker(group_by=("user.id",)).make_of(body, is_sequence=False)


def test_a_body_that_is_not_an_object_has_no_fields() -> None:
    with refused(InvalidBody, "field_missing", field="user", option="group_by"):
        maker(group_by=("user",)).make_of("user", is_sequence=False)


def test_a_time_is_no_number_of_a_sequence() -> None:
    with refused(InvalidScore, "number_invalid", value="1970-01-01T00:00:05Z"):
        maker(score_by="at").make({"at": "1970-01-01T00:00:05Z"}, "g", None, None, None, is_sequence=True)


# -- an item that may be a body, or the arguments of append -------------------------------------------------------


def test_arguments_go_where_they_have_not_the_fields_of_a_body() -> None:
    make = maker(group_by=("user",), id_by="n")
    assert make.make_of({"group": ["x"], "body": {"n": 5}}, is_sequence=False)[:2] == ("x", "5")
    assert make.make_of({"group": 1, "body": 2, "user": 3, "n": 4}, is_sequence=False)[:2] == ("3", "4")
    assert make.make_of({"user": 3, "n": 4, "group": 1, "body": 2}, is_sequence=False).envelope.startswith(b'[{"user"')
    for wrong in ({"body": 1}, {"group": 1, "body": 1, "other": 1}, {"n": 1}):
        with refused(InvalidGroup, "field_missing", field="user"):
            make.make_of(wrong, is_sequence=False)


# -- what is remembered -------------------------------------------------------------------------------------------


@given(NAMED, NAMED)
def test_what_is_stored_reads_back_and_keeps_what_it_does_not_know(first: BodyFields, then: BodyFields) -> None:
    text = write_fields(first, '{"kind_by": "type"}')
    assert read_fields(text) == first
    assert '"kind_by": "type"' in write_fields(then, text)
    assert read_fields(None) == BodyFields()


@given(NAMED, NAMED)
def test_each_field_is_set_once_and_taken_by_who_names_none(known: BodyFields, asked: BodyFields) -> None:
    pairs = {name: (getattr(known, name), getattr(asked, name)) for name in BodyFields._fields}
    differ = [name for name, pair in pairs.items() if None not in pair and pair[0] != pair[1]]
    if differ:
        with pytest.raises(ConfigurationError) as caught:
            merge_fields("q", known, asked)
        for value in pairs[differ[0]]:
            assert value in caught.value.fields.values(), "both are named"
    else:
        merged = merge_fields("q", known, asked)
        assert list(merged) == [a if a is not None else b for a, b in zip(asked, known, strict=True)]
        assert merge_fields("q", merged, BodyFields()) == merged == merge_fields("q", merged, asked)


@pytest.mark.parametrize(
    "foreign", ["", "7", "[]", '{"group_by": "user"}', '{"group_by": []}', '{"id_by": 7}', '{"score_by": ""}', "{"]
)
def test_what_no_client_of_ours_wrote_is_said(foreign: str) -> None:
    if foreign:
        with pytest.raises((DataError, ValueError)):
            read_fields(foreign)
    seq = Session(QueueOptions(queue="q"), ListedNet([foreign.encode()]))
    seq._shards, seq._is_registered = [shard_keys("sequencer", "q", 0)], True
    if foreign:
        with pytest.raises(DataError):
            run(seq.fresh_fields())
    else:
        assert run(seq.fresh_fields()) == BodyFields()


def test_who_names_none_takes_what_the_queue_has_and_another_value_is_refused() -> None:
    queue = MemoryQueue("orders", group_by=["user.id"], id_by="n")
    queue.append({"user": {"id": 7}, "n": 1})
    other = MemoryQueue("orders")
    other._net, other._session = queue._net, Session(other.options, queue._net)
    assert run(other._session.shards("append"))
    assert other._session.items.fields == queue.fields == BodyFields(("user.id",), "n")
    with refused(ConfigurationError, "option_fixed", name="id_by", before="n", value="id"):
        run(Session(QueueOptions(queue="orders", id_by="id"), queue._net).shards(register=True))
    more = Session(QueueOptions(queue="orders", score_by="at"), queue._net)
    run(more.shards(register=True))
    assert queue.fields == more.items.fields == BodyFields(("user.id",), "n", "at")


def test_a_server_that_lost_its_data_gets_the_fields_again() -> None:
    server, net, seq = made(id_by="n")
    run(seq.shards(register=True))
    server.hashes.clear()
    server.clocks.clear()
    run(seq.refresh(net.one))
    assert json.loads(server.hashes[shard_keys("n", "q", 0).policy][BODY_FIELDS]) == {"id_by": "n"}
    other = connected(server)
    assert other.items.fields == BodyFields(id_by="n")


# -- what needs no server ------------------------------------------------------------------------------------------


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
        *(({}, None), ({"score": 7.5}, None), ({"score": -1}, None)),
    ],
)
def test_the_number_of_a_sequence_is_its_id_unless_one_is_given(given: dict[str, Any], expected: Any) -> None:
    fields = {"body": 1, "group": "g", **given}
    assert maker().make_of(fields, is_sequence=False).id != "7"
    if isinstance(expected, str):
        assert maker().make_of(fields, is_sequence=True).id == expected
    else:
        with refused(InvalidScore, "number_invalid", value=given.get("score")):
            maker().make_of(fields, is_sequence=True)
