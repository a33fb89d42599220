"""Envelopes, records, ids and scores: what is accepted, what is refused and why, and that all of it comes back."""

from __future__ import annotations

import math
import uuid
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sequencer.errors import InvalidBody, InvalidId, InvalidScore, InvalidTime, Undecodable, shown
from sequencer.store.envelope import (
    MAX_TIME_S,
    TRACE_HEADERS,
    content_of,
    decode_envelope,
    encode_envelope,
    encode_id,
    encode_score,
    encode_time,
)
from sequencer.store.failure import decode_failure, encode_failure
from sequencer.store.record import decode_record, plain_messages, raw_message, read_plain
from sequencer.store.text import dumps_words, loads_words
from sequencer.values.message import Failure

from ..support.refused import refused

TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
ZONES: Any = st.timedeltas(timedelta(hours=-23), timedelta(hours=23)).map(
    lambda by: timezone(timedelta(minutes=by // timedelta(minutes=1)))
)
LATELY = {"min_value": datetime(1970, 1, 2), "max_value": datetime(2100, 1, 1)}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=10,
)
HEADERS = st.none() | st.dictionaries(TEXT | st.sampled_from(TRACE_HEADERS), TEXT, max_size=3)
MIB = 1024 * 1024


@given(JSON, HEADERS)
def test_body_and_headers_come_back(body: Any, headers: dict[str, str] | None) -> None:
    assert decode_envelope(encode_envelope(body, headers, MIB)) == (body, headers or {})


@pytest.mark.slow
@given(JSON, HEADERS)
def test_what_a_repeat_is_compared_by_is_all_but_the_trace(body: Any, headers: dict[str, str] | None) -> None:
    own = {name: text for name, text in (headers or {}).items() if name not in TRACE_HEADERS}
    assert content_of(encode_envelope([body], headers, MIB)) == encode_envelope([body], own, MIB)
    assert b"\n" not in encode_envelope([body, orjson.Fragment(b"[1,\n2]")], own, MIB)


def test_a_trace_counts_for_the_size() -> None:
    with refused(InvalidBody, "too_large"):
        encode_envelope(1, {"tracestate": "x" * 100}, 100)


@pytest.mark.slow
@given(JSON, HEADERS, st.integers(0, 9998), st.floats(allow_nan=False, allow_infinity=False), TEXT.filter(bool))
def test_a_record_comes_back_as_a_message(
    body: Any, headers: dict[str, str] | None, attempts: int, score: float, message_id: str
) -> None:
    stamp = 1_795_170_870_982_084
    record = f"{stamp}{attempts:04d}0".encode() + encode_envelope(body, headers, MIB)
    message = decode_record(f"{stamp}{message_id}", repr(score), record, ("a", "b"), 7, "jobs")
    assert message.id == message_id
    assert (message.body, message.headers, message.attempt) == (body, headers or {}, attempts + 1)
    assert (message.score, message.stamp, message.token) == (score, stamp, 7)
    assert message.appended_at == pytest.approx(stamp / 1e6)


@pytest.mark.parametrize("head", ["0000A", "00000", "0000R", "0003A", "0000D1795170870982099", "0000T1795170870982099"])
@pytest.mark.parametrize(
    "envelope",
    [b"[1]", b'[1,{"a":"b"}]', b'[1]\n{"traceparent":"t"}', b'{"a":1}', b'"x"', b"[]", b"[1,2]", b"1],[2", b"[1"],
)
@pytest.mark.parametrize("below", [-math.inf, 5.0, 6.0])
def test_many_records_are_read_at_once_as_each_is_alone_or_not_at_all(head: str, envelope: bytes, below: float) -> None:
    """Its own score does not make a message late; redriven ones, headers and foreign bytes are not taken for plain."""
    members = [f"179517087098208{n}m{n}" for n in range(3)]
    heads = [f"1795170870982080{some}".encode() for some in ("0000A", head, "00000")]
    records = [heads[0] + b"[0]", heads[1] + envelope, heads[2] + b"[2]"]
    scores = ["4.0", "5.0", "6.0"]
    plain = read_plain(members, records)
    found = plain and plain_messages(members, scores, plain, ("g",), 7, "q", below)
    try:
        alone = [
            decode_record(member, score, record, ("g",), 7, "q", below)
            for member, score, record in zip(members, scores, records, strict=True)
        ]
    except (ValueError, Undecodable):
        alone = []
    assert found in (None, alone)
    assert [message.late for message in alone] == [score < below for score in (4.0, 5.0, 6.0)][: len(alone)]
    assert (found is not None) == (head in ("0000A", "00000") and envelope == b"[1]")


@given(st.binary(max_size=40))
def test_foreign_bytes_are_an_error_or_an_envelope_but_never_a_crash(data: bytes) -> None:
    record = b"1795170870982084" + b"0002" + data
    try:
        decode_record("1795170870982084x", "1", record, ("g",), 1, "q")
    except (ValueError, Undecodable):
        message = raw_message("1795170870982084x", "1", record, ("g",), 1, "q")
        assert isinstance(message.body, str)
        assert message.attempt == 3


@pytest.mark.parametrize("score", [0, 1, -1, 2**53, -(2**53), 1.5, 1e-300, 1263372025.0, 0.1 + 0.2])
def test_a_score_reads_back_as_the_same_double(score: float) -> None:
    assert float(encode_score(score)) == score


@given(st.datetimes(timezones=ZONES), st.sampled_from(["T", " "]))
def test_iso_text_is_the_score_of_its_datetime(moment: datetime, between: str) -> None:
    text = moment.isoformat(between)
    assert encode_score(text) == encode_score(moment) == repr(moment.timestamp() + 0.0)
    if moment.utcoffset() == timedelta(0):
        assert encode_score(text.replace("+00:00", "Z")) == encode_score(moment)


@given(st.datetimes(**LATELY, timezones=ZONES), st.datetimes(**LATELY, timezones=ZONES))
def test_scores_of_times_are_ordered_as_the_times(first: datetime, then: datetime) -> None:
    """Also those that lie a microsecond apart, until the year 2100."""
    for one in (first.isoformat(), first):
        for other in (then.isoformat(), then, first + timedelta(microseconds=1)):
            known = datetime.fromisoformat(other) if isinstance(other, str) else other
            a, b = float(encode_score(one)), float(encode_score(other))
            assert (a < b, a == b) == (first < known, first == known)


@pytest.mark.parametrize(
    ("code", "scores"),
    [
        ("score_invalid", [math.nan, math.inf, -math.inf, True, "7", "", None]),
        ("time_zone_missing", ["2026-01-02", datetime(2026, 1, 1)]),
        ("score_too_large", [2**53 + 1, 1e300, 10**400, -(10**400), 1_763_000_000_000_000_000]),
    ],
)
def test_a_bad_score_is_refused(code: str, scores: list[Any]) -> None:
    for score in scores:
        with refused(InvalidScore, code):
            encode_score(score)


@pytest.mark.parametrize("message_id", ["", None, True, 1.5, "x" * 257, "é" * 129, 10**5000, "\udcff"], ids=shown)
def test_a_bad_id_is_refused(message_id: Any) -> None:
    with refused(InvalidId, "identifier_invalid", name="id"):
        encode_id(message_id)


def test_ids_may_be_numbers_uuids_and_up_to_256_bytes() -> None:
    assert encode_id(7) == "7"
    assert encode_id(uuid.UUID(int=7)) == str(uuid.UUID(int=7))
    assert encode_id("é" * 128) == "é" * 128


@pytest.mark.parametrize(
    ("code", "bodies"),
    [
        ("not_finite", [math.nan, {"a": [1, {"b": math.inf}]}, {"a": None, "b": (1.0, -math.inf)}]),
        ("not_json", [{1: 2}, object(), {"a"}, b"bytes", 2**64, "\ud800"]),
        ("too_large", ["x" * MIB]),
    ],
)
def test_a_bad_body_is_refused(code: str, bodies: list[Any]) -> None:
    for body in bodies:
        with refused(InvalidBody, code):
            encode_envelope(body, None, MIB)


def test_a_body_may_be_as_long_as_the_bound_says() -> None:
    assert len(encode_envelope("x" * 6, None, 10)) == 10
    with refused(InvalidBody, "too_large", size=10, most=9):
        encode_envelope("x" * 6, None, 9)


@pytest.mark.parametrize(
    "envelope", [b"{}", b'{"a":1}', b'"x"', b"[]", b"[1,2]", b'[1,["a"]]', b"[1,{},3]", b"[1,null]", b"[1]\n[]"]
)
def test_what_no_client_of_ours_wrote_is_no_envelope(envelope: bytes) -> None:
    with refused(Undecodable, "not_an_envelope"):
        decode_envelope(envelope)


def test_a_time_is_rounded_and_lies_below_what_scripts_take_for_a_pause() -> None:
    assert encode_time(1.000001) == 1_000_001, "as a double it lies a little below"
    assert encode_time(MAX_TIME_S) == 8 * 10**15
    with refused(InvalidTime, "time_invalid", most=MAX_TIME_S):
        encode_time(MAX_TIME_S + 1)


@pytest.mark.parametrize("headers", [{"a": 1}, {1: "a"}, ["a"], "a", {"a": None}])
def test_bad_headers_are_refused(headers: Any) -> None:
    with refused(InvalidBody, "headers_invalid"):
        encode_envelope({}, headers, MIB)


def test_a_failure_comes_back_and_its_texts_are_cut_to_8_kib_at_the_front() -> None:
    failure = Failure("id", "ValueError", "no", "x" * 9000 + "cause", 3, 1.5, "me")
    found, member = decode_failure(encode_failure(failure, "1795170870982084id"))
    assert member == "1795170870982084id"
    assert len(found.traceback) == 8192
    assert found.traceback.endswith("cause")
    assert found == replace(failure, traceback=found.traceback)


@pytest.mark.parametrize("record", [b"\xff", b"[]", b"7", b'{"attempt": "x"}'])
def test_a_foreign_failure_record_is_shown_not_raised(record: bytes) -> None:
    assert decode_failure(record)[0].type == "Broken"
    assert decode_failure(b"") == (Failure("", "", "", "", 0, 0.0, ""), "")


@given(st.lists(st.lists(st.text(st.characters(exclude_categories=[])), max_size=3), max_size=3))
def test_words_with_any_text_pass_to_a_script(words: list[list[str]]) -> None:
    """Surrogates stand for bytes that are not UTF-8: they go through as they came."""
    usable = [
        [w for w in some if all(not 0xD800 <= ord(c) <= 0xDFFF or 0xDC80 <= ord(c) <= 0xDCFF for c in w)]
        for some in words
    ]
    data = dumps_words(usable)
    assert [[w.encode("utf-8", "surrogateescape") for w in some] for some in loads_words(data)] == [
        [w.encode("utf-8", "surrogateescape") for w in some] for some in usable
    ]
