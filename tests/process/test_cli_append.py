"""`sequencer append` as a person uses it: from files and standard input, good lines and bad ones."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from sequencer import Sequencer
from sequencer.cli.tally import Tally
from sequencer.net.link import Link
from sequencer.store.group import shard_of
from sequencer.testing.wire import Wire, name_of, wired

from ..support.said import refused
from .conftest import Cli

BY = ("--group-by", "user_id,order_id", "--id-by", "reqId", "--score-by", "q_time")


def order(number: int, **more: Any) -> dict[str, Any]:
    return {"user_id": 1002, "order_id": 77, "reqId": f"r{number}", "q_time": 100 - number, **more}


def ndjson(*lines: Any) -> str:
    return "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines)


def test_a_file_by_fields_of_the_body(cli: Cli, make: Callable[..., Sequencer]) -> None:
    (cli.directory / "orders.ndjson").write_text(ndjson(*[order(n) for n in range(3)], order(3, user_id="x")))
    done = cli.call("append", "xxx_job", "orders.ndjson", *BY)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"appended 4, duplicates 0, refused 0 in \d+\.\d\d s \([\d,]+/s\)\n", done.stdout)
    assert done.stderr == ""
    messages = make("xxx_job").peek([1002, 77])
    assert [(message.id, message.score) for message in messages] == [("r2", 98.0), ("r1", 99.0), ("r0", 100.0)]
    assert messages[2].body == order(0)

    said = json.loads(cli.call("append", "xxx_job", "orders.ndjson", *BY, "--json").stdout)
    assert (said["appended"], said["duplicates"], said["refused"]) == (0, 4, 0)
    assert said.keys() == {"appended", "duplicates", "refused", "dropped", "dead", "seconds", "rate"}
    assert make("xxx_job").info().backlog == 4


def test_the_queue_remembers_the_fields_and_configure_shows_them(cli: Cli, make: Callable[..., Sequencer]) -> None:
    by = ("--group-by", "user.id", "--id-by", "event", "--score-by", "created_at")
    lines = ndjson(*[{"user": {"id": 7}, "event": f"e{n}", "created_at": f"2026-11-23T10:0{n}:00Z"} for n in (1, 0)])
    assert cli.call("append", "jobs", *by, input=lines).stdout.startswith("appended 2, duplicates 0, refused 0 ")
    again = cli.call("append", "jobs", input=lines + ndjson({"group": ["x"], "body": {"event": 1}, "score": 1}))
    assert again.stdout.startswith("appended 1, duplicates 2, refused 0 "), again.stderr
    assert [message.id for message in make().peek(7)] == ["e0", "e1"]
    assert cli.call("append", "jobs", "--group-by", "user", input=lines).returncode == 2
    assert json.loads(cli.call("configure", "jobs", "--json").stdout)["fields"] == {
        "group_by": ["user.id"],
        "id_by": "event",
        "score_by": "created_at",
    }


def test_standard_input_with_everything_said_in_the_line(cli: Cli, seq: Sequencer) -> None:
    full = {"group": ["a", 1], "body": [1, None], "id": "one", "score": 2.5, "headers": {"trace": "t1"}}
    done = cli.call("append", "jobs", input=ndjson("", full, "   ", {"group": "a", "body": "text"}))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("appended 2, duplicates 0, refused 0 in ")
    [message] = seq.peek(["a", 1])
    assert (message.id, message.score, message.body, message.headers) == ("one", 2.5, [1, None], {"trace": "t1"})
    assert [message.body for message in seq.peek("a")] == ["text"]
    assert cli.call("append", "jobs", "-", input="").stdout.startswith("appended 0, duplicates 0, refused 0 in ")


def test_a_bad_line_stops_it_behind_the_lines_before(cli: Cli, make: Callable[..., Sequencer]) -> None:
    for number, bad in enumerate(['{"user_id": 1002,', order(0, note="other content")]):
        queue = f"q{number}"
        lines = ndjson(*[order(n) for n in range(700)], "", bad, order(800))
        make(queue).connect()
        done = cli.call("append", queue, *BY, input=lines)
        assert done.returncode == 2
        assert done.stderr.startswith("error: line 702: ")
        first = done.stderr.split("--from-line ")[1].split(";")[0]
        again = cli.call("append", queue, *BY, "--from-line", first, "--on-error", "skip", input=lines)
        assert again.stdout.startswith("appended 1, duplicates 0, refused 1 in ")
        assert done.stderr.count("\n") == 1
        assert done.stdout.startswith("appended 700, duplicates 0, refused 1 in ")
        assert make(queue).info().backlog == 701


def test_large_lines_go_in_several_chunks_and_a_bad_one_leaves_none_out(cli: Cli, seq: Sequencer) -> None:
    """A body may be larger than its line: then a call has several chunks. Lines without an id are not doubled."""
    seq.connect()
    large = f"[{','.join(['1e15'] * 40_000)}]"
    lines = [f'{{"group": ["a"], "body": {large}}}'] * 4
    done = cli.call("append", "jobs", input=ndjson(*lines, '{"group": [], "body": 1}', *lines))
    assert done.stderr.startswith("error: line 5: ")
    assert done.stdout.startswith("appended 4, duplicates 0, refused 1 in ")
    assert seq.info().backlog == 4


def test_the_lines_of_a_round_trip_can_be_said(cli: Cli, seq: Sequencer) -> None:
    lines = ndjson(*[{"group": ["a"], "body": n} for n in range(5)])
    assert cli.call("append", "jobs", "--chunk", 2, input=lines).stdout.startswith("appended 5,")
    assert [message.body for message in seq.peek("a")] == [0, 1, 2, 3, 4]
    for wrong in (0, 1001, 10**20):
        assert cli.call("append", "jobs", "--chunk", wrong, input=lines).returncode == 2
    assert seq.info().backlog == 5


def test_bad_lines_are_skipped_and_counted_on_request(cli: Cli, seq: Sequencer) -> None:
    """What is refused of a field has its tests in unit/test_append_operation.py and unit/test_cli_lines.py."""
    group = ["a"]
    bad = [
        "x",
        '{"group": ["a"], "body": 1, "id": null}',
        {"group": group, "id": "i" * 257, "body": 1},
        {"group": group, "body": "b" * 200},
        {"group": group, "body": 1, "priority": 1},
    ]
    good = {"group": group, "body": 1, "id": "good"}
    seq.connect()
    words = ("append", "jobs", "--on-error", "skip", "--max-body-bytes", 100)
    done = cli.call(*words, input=ndjson(*bad, good, good))
    assert done.returncode == 1
    assert done.stdout.startswith(f"appended 1, duplicates 1, refused {len(bad)} in ")
    *lines, last = (line.partition(":")[0] for line in done.stderr.splitlines())
    assert (lines, last) == ([f"line {number}" for number in range(1, len(bad) + 1)], "error")
    assert [message.id for message in seq.peek(group)] == ["good"]


def test_a_null_in_a_field_without_a_meaning_is_a_part_of_the_body(cli: Cli, seq: Sequencer) -> None:
    """The queue remembers the fields of its first use: then a line is a body."""
    for words in (("--group-by", "user"), ()):
        done = cli.call("append", "jobs", *words, input='{"user": 1, "id": null, "score": null}')
        assert done.returncode == 0, done.stderr
    assert [message.body["id"] for message in seq.peek("1")] == [None, None]


def test_a_file_that_cannot_be_read_is_wrong_use(cli: Cli, seq: Sequencer) -> None:
    for name, reason in (("nothing.ndjson", "No such file or directory"), (".", "Is a directory")):
        assert reason in refused(cli, "append", "jobs", name)
    assert seq.info().backlog == 0


@pytest.mark.parametrize("words", [(), ("--input", "csv", "--group-by", "n")])
def test_a_first_line_behind_the_end_of_the_input_is_wrong_use(cli: Cli, link: Link, words: tuple[str, ...]) -> None:
    for number in (3, 9):
        assert refused(cli, "append", "jobs", "--from-line", number, *words, input='{"group": "a", "body": 1}\n\n')
    assert link.command("KEYS", "*") == []


def test_a_line_that_stands_is_not_appended_again_when_another_is_refused(
    make: Callable[..., Sequencer], seq: Sequencer
) -> None:
    """Between the look at all shards and the append, another producer takes an id in one of them. Lines without an id
    of
    the other shard stand by then, and would be doubled.
    """
    first, second = (next(g for g in "abcdefgh" if shard_of(g, 2) == shard) for shard in (0, 1))
    other = make(shards=2)
    taken: list[str] = []

    class Racing(Wire):
        def sending(self, commands: list[Any]) -> list[Any]:
            appends = [words for words in commands if name_of(words) == "append" and "none" in words]
            if any(words[words.index("none") + 1] == "0" for words in appends):  # no dry run: that is the look
                taken.append(other.append("other", second, id="x").id)
            return commands

    other.append("warm", "z")
    client = make(redis=wired(seq.endpoint, Racing))
    client.connect()
    lines = [(1, {"group": first, "body": 1}), (2, {"group": second, "id": "x", "body": "mine"})]
    tally = Tally(client)
    tally.add(lines)
    assert taken == ["x"]
    assert tally.problem.startswith("line 2: ")
    assert tally.appended == 1
    assert [message.body for message in seq.peek(first)] == [1]


def test_a_csv_is_read_by_its_header_and_only_the_score_becomes_a_number(
    cli: Cli, make: Callable[..., Sequencer]
) -> None:
    by = ("--group-by", "order", "--id-by", "id", "--score-by", "ts")
    text = '\ufefforder,id,ts,note\r\n007,e2,2.5,"two\nlines"\r\n\r\n007,e1,1,"a, b"\r\n8,e3,2026-11-23T10:00:00Z,\r\n'
    (cli.directory / "orders.csv").write_bytes(text.encode())
    done = cli.call("append", "jobs", "orders.csv", *by)
    assert done.stdout.startswith("appended 3, "), done.stderr
    assert [(message.id, message.score, message.body["note"]) for message in make().peek("007")] == [
        ("e1", 1, "a, b"),
        ("e2", 2.5, "two\nlines"),
    ]
    assert make().peek("8")[0].body == {"order": "8", "id": "e3", "ts": "2026-11-23T10:00:00Z", "note": ""}
    again = cli.call("append", "jobs", "--input", "csv", "--from-line", 5, "--json", input=text)
    assert json.loads(again.stdout)["duplicates"] == 2

    wrong = cli.call("append", "jobs", "--input", "csv", "--json", input="order,id,ts\n9,e4,4\n9,e5\n9,e6,6\n")
    assert (wrong.returncode, json.loads(wrong.stdout)["appended"]) == (2, 1)
    assert "with --from-line 3" in wrong.stderr
    assert cli.call("append", "jobs", "--input", "csv", input='order,id,ts\n"9,e7,7\n').returncode == 2
