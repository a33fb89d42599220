"""Texts of others in one line: spelled out, and where they name a group, as a shell and `explain` take them back."""

from __future__ import annotations

import json
import subprocess
import unicodedata

from hypothesis import example, given, settings
from hypothesis import strategies as st

from sequencer import Message
from sequencer.processes.handlers.printing import message_line
from sequencer.store.group import decode_group, encode_group
from sequencer.texts.words import json_line, many, named, of_limit, plain, quoted

PARTS = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), min_size=1, max_size=12)
ODD = st.sampled_from(
    [*"'\"\\ $*~!\n\x85\u2028\u202eé\U0001f600", "$x", "`id`", "\x1b[2J", "-n", "--"],
)
WORDS = st.lists(ODD | PARTS, min_size=1, max_size=4).map("".join)
GROUPS = st.lists(WORDS, min_size=1, max_size=3)


def split_by_bash(lines: list[str]) -> list[list[str]]:
    """The words of each line, as bash has them."""
    script = "".join(f"printf '%s\\0' {line}; printf '\\0'\n" for line in lines)
    done = subprocess.run(["bash", "-c", script], capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"})
    return [line.split("\0") for line in done.stdout.decode().removesuffix("\0\0").split("\0\0")]


@settings(max_examples=40)
@given(st.lists(GROUPS, min_size=1, max_size=20))
@example([["a b", "c"], ["-x"], ["it's"], ["\x1b[31m", "\u202eabc"], ["\\x41"]])
def test_a_group_that_is_shown_is_taken_back(groups: list[list[str]]) -> None:
    shown = [named(group) for group in groups]
    for line in shown:
        assert plain(line) == line, "nothing in it moves a terminal's cursor"
    found = split_by_bash(shown)
    assert [[word for word in words if word != "--"] for words in found] == [
        [part for part in group if part != "--"] for group in groups
    ]
    for group, words in zip(groups, found, strict=True):
        is_marked = any(part.startswith("-") for part in group)
        assert (words[0] == "--") == is_marked, "else it would be an option"
        assert list(decode_group(encode_group(words[1:] if is_marked else words))) == group


@given(st.text())
def test_nothing_that_moves_text_about_is_left(text: str) -> None:
    text += "\u202e\x9b\u2028\u200f"
    for shown in (plain(text), quoted(text), json_line(json.dumps(text, ensure_ascii=False))):
        kinds = {unicodedata.category(one) for one in shown}
        assert not kinds & {"Cc", "Zl", "Zp", "Cs"}
        assert not {unicodedata.bidirectional(one) for one in shown} & {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI"}


@given(st.text())
def test_json_stays_the_same(text: str) -> None:
    line = json_line(json.dumps(text, ensure_ascii=False) + "\n")
    assert line.count("\n") == 1
    whole = json.dumps(text, ensure_ascii=False) + "\n"
    assert json.loads(line) == json.loads(whole)


def test_a_printed_message_moves_nothing_about() -> None:
    message = Message("é", ("\x85\u202e",), 1.0, "\u2028\x7f", {}, 1, 1, 0.0, "q", 1)
    line = message_line(message).decode()
    assert (json.loads(line)["group"], json.loads(line)["body"]) == (["\x85\u202e"], "\u2028\x7f")
    assert plain(line[:-1]) == line[:-1]


def test_counts_and_limits_are_told_in_the_right_number() -> None:
    found = [many(count, "failed attempt") for count in (0, 1, 1200)]
    assert found == ["0 failed attempts", "1 failed attempt", "1,200 failed attempts"]
    assert [of_limit(tried, 2) for tried in (1, 2, 3)] == ["1 of 2", "2 of 2", "3 (the limit is 2)"]
