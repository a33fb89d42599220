"""Texts of others in one line: spelled out, and where they name a group, as a shell and `explain` take them back."""

from __future__ import annotations

import ast
import json
import re
import shlex
import subprocess
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sequencer import Message
from sequencer.processes.handlers.printing import message_line
from sequencer.store.group import decode_group, encode_group
from sequencer.texts.commands import command
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


@given(GROUPS)
def test_without_control_characters_every_shell_reads_it(group: list[str]) -> None:
    printable = ["".join(one for one in part if plain(one) == one) or "x" for part in group]
    assert shlex.split(command("explain", "jobs", *printable))[2:] in (
        ["jobs", *printable],
        ["--", "jobs", *printable],
    )


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


ROOT = Path(__file__).parents[2]
ALSO_VERBS = {"names", "runs", "attempts"}
"""As in `option --x names no queue`."""
NOUN = re.compile(r"many\([^\n]*?, ['\"]([a-z ]+)['\"]\)")


def told_counts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """What stands in a text behind a value that is filled in, with its line; limits, in capitals, are never 1."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            for value, behind in zip(node.values, node.values[1:], strict=False):
                if isinstance(value, ast.FormattedValue) and isinstance(behind, ast.Constant):
                    is_limit = isinstance(value.value, ast.Name) and value.value.id.isupper()
                    yield from [] if is_limit else [(behind.lineno, str(behind.value))]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from ((node.lineno, found) for found in re.findall(r"%[sd]( [^%]*)", node.value))


@pytest.mark.slow
def test_a_count_is_told_with_its_noun_in_the_right_number() -> None:
    assert [many(count, "failed attempt") for count in (0, 1, 1200)] == [
        "0 failed attempts",
        "1 failed attempt",
        "1,200 failed attempts",
    ]
    texts = {path: path.read_text() for room in ("sequencer", "cli") for path in (ROOT / room).rglob("*.py")}
    names = {many(2, noun).partition(" ")[2] for text in texts.values() for noun in NOUN.findall(text)}
    names = (names | {name.split()[-1] for name in names}) - ALSO_VERBS
    assert {"groups", "parked groups", "shards", "messages", "dead letters", "lines", "consumers"} <= names
    plural = re.compile(rf" ({'|'.join(sorted(names))})\b")
    told = {path.relative_to(ROOT).as_posix(): told_counts(ast.parse(text)) for path, text in texts.items()}
    found = [f"{path}:{line}:{text}" for path, lines in told.items() for line, text in lines if plural.match(text)]
    assert not found, "these say `1 groups`; use many()"


def test_more_attempts_than_are_allowed_are_told_as_that() -> None:
    assert [of_limit(tried, 2) for tried in (1, 2, 3)] == ["1 of 2", "2 of 2", "3 (the limit is 2)"]
