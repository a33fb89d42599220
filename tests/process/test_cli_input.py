"""What `append` does with an input that is packed, broken, or holds lines that it refuses."""

from __future__ import annotations

import gzip
import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from sequencer import Sequencer

if TYPE_CHECKING:
    from .conftest import Cli

PATIENCE_S = 30.0

LINES = [json.dumps({"group": ["a"], "id": f"m{n}", "score": n, "body": n}) for n in range(300)]


@pytest.mark.parametrize("is_file", [True, False])
def test_a_gzipped_input_is_read(cli: Cli, seq: Sequencer, is_file: bool) -> None:
    data = gzip.compress("\n".join(LINES).encode())
    (cli.directory / "lines.gz").write_bytes(data)
    seq.connect()
    done = subprocess.run(
        [cli.program, "append", "jobs", "lines.gz" if is_file else "-"],
        input=data,
        capture_output=True,
        cwd=cli.directory,
        env=cli.environment,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"appended 300, ")
    assert seq.info().backlog == 300


def test_a_gzipped_input_that_is_cut_short_says_where(cli: Cli, seq: Sequencer) -> None:
    data = gzip.compress("\n".join(LINES).encode())
    (cli.directory / "lines.gz").write_bytes(data[: len(data) // 2])
    seq.connect()
    done = cli.call("append", "jobs", "lines.gz")
    assert done.returncode == 2
    stored = seq.info().backlog
    assert 0 < stored < 300
    assert "the gzip data behind it can't be read" in done.stderr
    assert done.stderr.startswith(f"error: line {stored}: ")
    assert "--on-error skip" not in done.stderr


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


@pytest.mark.parametrize("size", [2, 12, 30])
def test_a_gzip_that_ends_before_its_first_line_is_told(cli: Cli, size: int) -> None:
    (cli.directory / "x.gz").write_bytes(gzip.compress(b'{"group":["a"],"body":1}\n' * 2)[:size])
    done = cli.call("append", "jobs", "x.gz")
    assert done.returncode == 2
    assert "the gzip data behind it can't be read" in done.stderr
