"""What `append` makes of a line: whole numbers, nulls, what is no JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sequencer.cli.lines import parse
from sequencer.errors import InvalidMessage
from sequencer.values.json_input import LARGEST, SMALLEST
from tests.support.refused import refused

NUMBERS = st.integers() | st.integers(2**63 - 2, 2**64 + 2) | st.integers(-(2**64), -(2**63) + 2) | st.integers(10**18)
VALUES = st.recursive(
    NUMBERS | st.floats(allow_nan=False, allow_infinity=False) | st.text() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


def numbers_of(value: Any) -> list[int]:
    if isinstance(value, dict):
        return [one for inner in value.values() for one in numbers_of(inner)]
    if isinstance(value, list):
        return [one for inner in value for one in numbers_of(inner)]
    return [value] if isinstance(value, int) else []


@given(VALUES)
def test_a_whole_number_is_kept_or_refused_and_never_another(value: Any) -> None:
    line = json.dumps({"body": value}).encode()
    if all(SMALLEST <= number <= LARGEST for number in numbers_of(value)):
        assert parse(line, is_envelope=True) == {"body": value}
    else:
        with refused(InvalidMessage, "number_too_large"):
            parse(line, is_envelope=True)


def test_a_number_that_is_too_large_is_shown_and_cut() -> None:
    with refused(InvalidMessage, "number_too_large", number=str(2**64)):
        parse(f"[1, {2**64}]".encode(), is_envelope=False)
    with refused(InvalidMessage, "number_too_large", number=f"{'9' * 60}..."):
        parse(b"9" * 200, is_envelope=False)
    assert parse(b'["18446744073709551616", 18446744073709551616.5]', is_envelope=False)[0] == str(2**64)


@pytest.mark.parametrize("name", ["group", "id", "score"])
def test_a_null_is_no_value_of_a_field(name: str) -> None:
    line = json.dumps({"group": ["a"], "body": None} | {name: None}).encode()
    with refused(InvalidMessage, "field_null", field=name, is_optional=name != "group"):
        parse(line, is_envelope=True)
    assert parse(line, is_envelope=False)[name] is None, "a body may hold what it likes"


@given(VALUES, st.data())
def test_a_line_that_is_no_json_says_why_and_at_which_column_of_its_own(value: Any, data: st.DataObject) -> None:
    """The parser counts lines, and begins with 1; the line of the input is said by who knows it."""
    whole = json.dumps({"body": value}, ensure_ascii=False).encode("utf-8", "replace")
    cut = data.draw(st.integers(1, len(whole) - 1))
    ending = data.draw(st.sampled_from([b"", b"\n", b"\r\n"]))
    with refused(InvalidMessage, "line_not_json") as caught:
        parse(whole[:cut] + ending, is_envelope=True)
    assert 0 <= caught.value.fields["column"] <= len(whole[:cut].decode("utf-8", "replace"))
