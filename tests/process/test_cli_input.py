"""What `append` does with an input that is broken, or holds lines that it refuses."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from sequencer import Sequencer

if TYPE_CHECKING:
    from .conftest import Cli

LINES = [json.dumps({"group": ["a"], "id": f"m{n}", "score": n, "body": n}) for n in range(300)]


def test_refused_lines_that_are_skipped_are_counted_and_exit_code_1(cli: Cli, seq: Sequencer) -> None:
    lines = [LINES[0], "x", '{"group": ["a"], "body": 1, "id": null}', LINES[1]]
    seq.connect()
    done = cli.call("append", "jobs", "--on-error", "skip", input="\n".join(lines))
    assert done.returncode == 1
    assert done.stdout.startswith("appended 2, duplicates 0, refused 2 ")
    assert done.stderr.splitlines()[0].startswith("line 2: not JSON: ")
    assert done.stderr.splitlines()[1:] == [
        "line 3: field 'id' is null; give it a value, or leave the field out",
        "error: 2 lines refused, as said above; the others are stored",
    ]
    assert cli.call("append", "jobs", "--on-error", "skip", input=LINES[2]).returncode == 0


def test_a_whole_number_of_more_than_64_bits_is_refused_and_others_are_whole(cli: Cli, seq: Sequencer) -> None:
    body = {"n": 2**64 - 1, "m": -(2**63)}
    lines = [{"group": ["a"], "body": body}, {"group": ["a"], "body": {"n": 2**64}}]
    done = cli.call("append", "jobs", input="\n".join(map(json.dumps, lines)))
    assert done.returncode == 2
    assert f"error: line 2: {2**64} has more than 64 bits" in done.stderr
    [message] = seq.peek("a")
    assert message.body == body


@pytest.mark.parametrize(("option", "name"), [("--group-by", "user"), ("--id-by", "n"), ("--score-by", "ts")])
def test_a_null_in_a_field_that_an_option_names_is_said(cli: Cli, option: str, name: str) -> None:
    words = ("--group-by", "user") if option != "--group-by" else ()
    line = json.dumps({"user": 1, "n": "m", "ts": 1} | {name: None})
    done = cli.call("append", "jobs", *words, option, name, input=line)
    assert done.returncode == 2
    of = option.lstrip("-").replace("-", "_")
    assert f"line 1: field '{name}' of the body, which {of} names, is null; give it a value" in done.stderr


def test_a_null_in_a_field_without_a_meaning_is_a_part_of_the_body(cli: Cli, seq: Sequencer) -> None:
    """The queue remembers the fields of its first use: then a line is a body."""
    for words in (("--group-by", "user"), ()):
        done = cli.call("append", "jobs", *words, input='{"user": 1, "id": null, "score": null}')
        assert done.returncode == 0, done.stderr
    assert [message.body["id"] for message in seq.peek("1")] == [None, None]
