"""How the answers of plain commands are read."""

from __future__ import annotations

import pytest

from sequencer.errors import DataError, GroupBusy
from sequencer.store.record import DeadLetterName, number_of
from sequencer.store.replies import Reading, micros, pairs, scanned, text, texts


def test_words_are_read_in_pairs_and_half_a_pair_is_an_error() -> None:
    assert dict(pairs([b"a", b"1", b"b", b"2"])) == {b"a": b"1", b"b": b"2"}
    assert list(pairs([])) == []
    with pytest.raises(ValueError, match="zip"):
        list(pairs([b"a", b"1", b"b"]))


def test_bytes_that_are_not_utf8_go_back_as_they_were() -> None:
    assert text(b"\xff") == "\udcff"
    assert [one.encode("utf-8", "surrogateescape") for one in texts([b"\xff", "ä".encode()])] == [b"\xff", "ä".encode()]


def test_the_time_of_the_server_is_one_number() -> None:
    assert micros([b"1700000000", b"000042"]) == 1_700_000_000_000_042


def test_a_page_of_a_scan_says_where_the_next_one_begins() -> None:
    assert scanned([b"17", [b"a"]]) == (b"17", [b"a"])
    assert scanned([b"0", [b"b"]]) == (None, [b"b"])


@pytest.mark.parametrize("error", [ValueError("x"), KeyError("x"), AttributeError("x"), ZeroDivisionError("x")])
def test_what_cant_be_read_is_an_error_of_ours(error: Exception) -> None:
    with (
        pytest.raises(DataError, match=r"server here holds what no client of ours wrote \(\w+: .*x") as found,
        Reading("here"),
    ):
        raise error
    assert found.value.__cause__ is error


@pytest.mark.parametrize("error", [GroupBusy("x"), OSError("x"), KeyboardInterrupt()])
def test_errors_of_ours_and_of_the_network_and_signals_pass(error: BaseException) -> None:
    with pytest.raises(type(error)), Reading("here"):
        raise error


def test_the_name_of_a_dead_letter_has_three_parts() -> None:
    assert DeadLetterName.parse("1700000000000042a\x1fb\nid\n1") == ("1700000000000042", "a\x1fb", "id\n1")


@pytest.mark.parametrize(
    ("word", "number"),
    [
        (b"17000000000000421host", 1700000000000042),
        ("1700000000000042m", 1700000000000042),
        (b"x", 0),
        ("\u0661" * 16, 0),
    ],
)
def test_a_stamp_or_a_token_that_no_client_of_ours_wrote_is_0(word: bytes | str, number: int) -> None:
    assert number_of(word) == number
