"""Comments and indents of the scripts stay in the files: what is sent is the same program, in fewer bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sequencer.calls.source import LUA, assembled, header, script_source, stripped
from sequencer.testing.wire import at_time

from ..support.bytecode import program

NAMES = sorted(path.stem for path in LUA.glob("*.lua"))
STRINGS = (
    "'--'",
    '"--[["',
    "'\\'--'",
    '"\\"--"',
    "[[\n  a -- b\n\n   c  \n]]",
    "[==[ ]] --\n  x ]==]",
    "'a\\\n   b'",
    "''",
)
BETWEEN = (" ", "\n", "\t\n   ", "-- it's\n", "--[[ 'a'\n  b ]]", "--[==[ ]] ]==]", "--+ x\n", '--"\n')


@pytest.mark.parametrize("name", NAMES)
def test_what_is_sent_is_the_program_in_the_files(name: str) -> None:
    sent = script_source(name)
    assert program(sent) == program(assembled(name))
    assert "--" not in sent
    assert sent.splitlines() == [line.strip() for line in sent.splitlines() if line.strip()]
    assert header(name).startswith(f"-- {name}: ")


@given(st.lists(st.tuples(st.sampled_from(STRINGS), st.lists(st.sampled_from(BETWEEN), min_size=1)), max_size=6))
def test_strings_keep_what_looks_like_a_comment_or_an_indent(pieces: list[tuple[str, list[str]]]) -> None:
    text = "return 1" + "".join("".join(between) + ".. " + string for string, between in pieces) + "  -- the end"
    short = stripped(text)
    assert program(short) == program(text)
    assert stripped(short) == short
    for string, _ in pieces:
        assert string in short


def test_another_program_is_told_apart() -> None:
    assert program("return '  a'") != program("return ' a'")
    assert program("local a = 1\nreturn a") == program("local b = 1 return b")


@pytest.mark.parametrize("name", [name for name in NAMES if name != "note"])
def test_the_clock_of_each_script_can_be_set(name: str) -> None:
    """Its place among the arguments is read from the header, which is not sent."""
    words = ("EVAL", script_source(name), 0, *[""] * 20)
    assert at_time(words, 7).count("7") == 1
