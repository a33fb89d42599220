"""Python and Lua cut a record in the same pieces, whatever its bytes; an offset that is wrong by one shows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sequencer.calls.source import LUA
from sequencer.net.link import Link
from sequencer.store.ledger import Written
from sequencer.store.record import decode_head

from ..support.examples import examples

SETTINGS = settings(max_examples=examples(300), deadline=None, suppress_health_check=list(HealthCheck))
HEX = st.text("0123456789abcdefABCDEFx -+", max_size=6)


def of(stamp: str, attempts: str, flag: str, due: str, ledger: bytes, envelope: bytes) -> bytes:
    return (stamp + attempts + flag + due).encode() + ledger + envelope


WRITTEN = st.builds(Written, st.binary(max_size=80), st.integers(0, 0xFFFF), st.booleans()).map(Written.text)
SPOILT = st.tuples(st.sampled_from("01x"), HEX, HEX, st.binary(max_size=30)).map(
    lambda one: (one[0] + one[1] + one[2]).encode() + one[3]
)
RECORDS = st.binary(max_size=60) | st.builds(
    of,
    st.just("1795170870982084"),
    st.just("0003"),
    st.sampled_from("A0DTRaodtrXx"),
    st.just("") | st.just("1795170870982099"),
    st.just(b"") | WRITTEN | SPOILT,
    st.just(b"") | st.just(b'[{"a":1}]') | st.binary(max_size=40),
)
PROGRAM = "local sub = string.sub\n{}\nlocal flag, due, ledger, at = cut(ARGV[1])\nreturn {{flag, due, ledger, at}}"


def program(old: str = "", new: str = "") -> str:
    text = (LUA / "parts/record.lua").read_text()
    assert old in text
    return PROGRAM.format(text.replace(old, new) if old else text)


def pieces(record: bytes) -> list[Any]:
    """As `cut` in Lua gives them, but made of what Python reads."""
    head = decode_head(record)
    has_due = record[20:21] in (b"D", b"T", b"d", b"t")
    begins = 37 if has_due else 21
    flag = head.flag.encode("latin-1")
    return [flag, record[21:37] if has_due else b"", record[begins : head.size], head.size + 1]


def check(link: Link, text: str, record: bytes) -> None:
    assert link.command("EVAL", text, 0, record) == pieces(record)


@SETTINGS
@given(record=RECORDS)
@example(record=b"1795170870982084" + b"0003a" + b"100010000020" + b"{}" + b"[1]")
@example(record=b"")
def test_python_and_lua_cut_a_record_alike(link: Link, record: bytes) -> None:
    check(link, program(), record)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("'', 22\n", "'', 23\n"),
        ("sub(record, 22, 37), 38", "sub(record, 22, 37), 37"),
        ("at + 5, at + 10", "at + 4, at + 9"),
        ("at + 11 +", "at + 10 +"),
        ("envelope_at - 1)", "envelope_at)"),
        ("'[aodtr]'", "'[aodt]'"),
        ("flag == 'o' and '0' or", "false or"),
    ],
)
def test_an_offset_that_is_wrong_by_one_shows(link: Link, old: str, new: str) -> None:
    ledger = Written(b'{"k":1}', 0x12, True).text()
    records = [of("1" * 16, "0000", flag, "2" * 16 if flag in "dt" else "", ledger, b"[1]") for flag in "aodtr"]
    records += [of("1" * 16, "0000", flag, "2" * 16 if flag in "DT" else "", b"", b"[1]") for flag in "A0DTR"]
    for record in records:
        check(link, program(), record)
    with pytest.raises(AssertionError):
        for record in records:
            check(link, program(old, new), record)


def test_what_is_written_comes_back_piece_by_piece() -> None:
    for flag in "aodtr":
        due = "1795170870982099" if flag in "dt" else ""
        written = Written(b'{"k":7,"s":[]}', 0xABCD, flag == "o")
        record = of("1795170870982084", "0003", flag, due, written.text(), b'["x"]')
        head = decode_head(record)
        assert (head.written, record[head.size :]) == (written, b'["x"]')
        assert (head.flag, head.attempts) == ({"o": "0"}.get(flag, flag.upper()), 3)
        assert head.due_us == (int(due) if due else None)
