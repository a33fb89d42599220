"""How the answers of plain commands are read."""

from __future__ import annotations

import pytest

from sequencer.errors import DataError, GroupBusy
from sequencer.store.record import DeadLetterName, number_of
from sequencer.store.replies import Reading, micros, pairs, scanned, text, texts

from ..support.refused import refused


def test_replies_become_values() -> None:
    assert dict(pairs([b"a", b"1", b"b", b"2"])) == {b"a": b"1", b"b": b"2"}
    assert text(b"\xff") == "\udcff"
    assert [one.encode("utf-8", "surrogateescape") for one in texts([b"\xff", "ä".encode()])] == [b"\xff", "ä".encode()]
    assert micros([b"1700000000", b"000042"]) == 1_700_000_000_000_042
    assert (scanned([b"17", [b"a"]]), scanned([b"0", [b"b"]])) == ((b"17", [b"a"]), (None, [b"b"]))
    assert DeadLetterName.parse("1700000000000042a\x1fb\nid\n1") == ("1700000000000042", "a\x1fb", "id\n1")


def test_what_cant_be_read_is_an_error_of_ours() -> None:
    with refused(DataError, "foreign_data") as found, Reading("here"):
        list(pairs([b"a", b"1", b"b"]))
    assert isinstance(found.value.__cause__, ValueError)


@pytest.mark.parametrize("error", [GroupBusy("x"), OSError("x"), KeyboardInterrupt()])
def test_errors_of_ours_and_of_the_network_and_signals_pass(error: BaseException) -> None:
    with pytest.raises(type(error)), Reading("here"):
        raise error


def test_a_stamp_or_a_token_that_no_client_of_ours_wrote_is_0() -> None:
    words = (b"17000000000000421host", "1700000000000042m", b"x", "\u0661" * 16)
    assert [number_of(word) for word in words] == [1700000000000042, 1700000000000042, 0, 0]
