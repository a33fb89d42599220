"""history, find, sweep, and what get, explain, info and configure say of a history."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sequencer import Message, Sequencer
from sequencer.net.link import Link
from sequencer.store.keys import shard_keys

from ..support.said import json_of, refused
from .conftest import Cli


@pytest.fixture
def queue(cli: Cli, make: Callable[..., Sequencer]) -> Sequencer:
    """Messages that ended in each way, one that is parked, and one that waits."""
    queue = make(max_attempts=3, backoff=0.01, history_window="3d", dead_window="12h")
    for id in ("a", "b"):
        queue.append({}, ["good", 1], id=id)
    for group in ("bad", "worse"):
        queue.append({}, group, id="c")

    def handle(message: Message) -> None:
        if message.id == "c":
            raise ValueError(f"try {message.attempt}")

    queue.consume(handle, until_empty=True)
    queue.skip("bad")
    queue.append({}, "later", id="d", delay=60)
    queue.cancel("later", "d")
    queue.append({}, "later", id="e", delay=60)
    return queue


def ids(cli: Cli, *words: str) -> list[str]:
    """Those of messages in the history, as they are told."""
    return [one["id"] for one in json_of(cli, "history", "jobs", *words)]


def test_history_lists_what_ended(cli: Cli, queue: Sequencer) -> None:
    rows = cli.call("history", "jobs").stdout.splitlines()
    assert rows[0].split() == ["id", "group", "state", "attempts", "took", "ended", "consumer", "kind", "note"]
    shown = [(row.split()[0], next(word for word in row.split() if word.endswith("ed"))) for row in rows[1:]]
    assert sorted(shown) == [("a", "finished"), ("b", "finished"), ("c", "skipped"), ("d", "cancelled")]
    ends = [one["finished_at"] for one in json_of(cli, "history", "jobs")]
    assert ends == sorted(ends, reverse=True)  # to the millisecond: what ends within one stands in any order
    (skipped,) = [row for row in rows if row.split()[0] == "c"]
    assert "ValueError: try 3" in skipped
    assert sorted(ids(cli, "good", "1")) == ["a", "b"]
    assert ids(cli, "--outcome", "skipped", "--since", "1h") == ["c"]
    assert json_of(cli, "history", "jobs", "--until", "1h") == []
    assert json_of(cli, "history", "jobs", "--kind", "none") == []
    (one,) = json_of(cli, "history", "jobs", "--limit", "1")
    assert {"state", "status", "began_at", "finished_at", "consumer", "note", "attempts"} <= {*one}
    for words in (("--until", "soon"), ("--outcome", "done"), ("--limit", 10**20)):
        assert refused(cli, "history", "jobs", *words)


def test_find_needs_no_group(cli: Cli, queue: Sequencer) -> None:
    found = json_of(cli, "find", "jobs", "--id", "c")
    assert [(one["group"], one["state"], one["status"]) for one in found] == [
        (["bad"], "skipped", "error"),
        (["worse"], "parked", "error"),
    ]
    text = cli.call("find", "jobs", "--id", "a").stdout
    assert [word for word in ("finished", "good 1", "began", "ended", "took", "consumer") if word not in text] == []
    assert [one["state"] for one in json_of(cli, "find", "jobs", "--id", "e")] == ["delayed"]
    assert refused(cli, "find", "jobs", "--id", "nobody")


def test_get_and_explain_show_the_log(cli: Cli, queue: Sequencer) -> None:
    text = cli.call("explain", "jobs", "worse").stdout.splitlines()
    assert "after 3 failed attempts (ValueError: try 3)" in text[0]
    assert [line.partition(" failed at ")[0] for line in text[1:]] == ["attempt 1", "attempt 2", "attempt 3"]
    assert text[2].endswith("UTC ValueError: try 2")
    said = json_of(cli, "explain", "jobs", "worse")["log"]
    assert [one["error"] for one in said] == [f"ValueError: try {n}" for n in (1, 2, 3)]
    assert "ValueError: try 1" in cli.call("get", "jobs", "worse", "--id", "c").stdout
    assert json_of(cli, "get", "jobs", "good", "1", "--id", "a")["status"] == "finished"
    (parked,) = json_of(cli, "groups", "jobs", "--state", "parked")
    assert [one["attempt"] for one in parked["failure"]["log"]] == [1, 2]


def test_info_says_how_far_the_history_goes(cli: Cli, queue: Sequencer) -> None:
    line = cli.call("info", "jobs").stdout.splitlines()[2]
    assert line.startswith("jobs: history ")
    assert line.endswith(" of 3 d 0 h, 4 messages")
    assert json_of(cli, "info", "jobs")["history"]["messages"] == 4


def test_sweep_deletes_what_is_kept_no_longer(
    cli: Cli, queue: Sequencer, make: Callable[..., Sequencer], link: Link, namespace: str
) -> None:
    make("other").append({}, "g")
    queue.skip("worse", dead_letter=True)
    assert json_of(cli, "sweep", "jobs") == [{"queue": "jobs", "history": 0, "dead": 0}]
    keys = shard_keys(namespace, "jobs", 0)
    for key in (keys.histories, keys.dead):
        (name,) = link.command("ZRANGE", key, 0, -1)
        link.command("ZADD", key, 1, name)
    assert json_of(cli, "sweep") == [
        {"queue": "jobs", "history": 4, "dead": 1},
        {"queue": "other", "history": 0, "dead": 0},
    ]
    assert [(one["state"], one["note"]) for one in json_of(cli, "history", "jobs")] == [("swept", "ValueError: try 3")]
    assert "sequencer configure other --history-window 3d" in cli.call("history", "other").stdout


def test_rerun_appends_again_what_ended(cli: Cli, make: Callable[..., Sequencer]) -> None:
    cli.call("configure", "jobs", "--history-window", "3d", "--history-bodies")
    queue = make(backoff=0.01)
    queue.append({"euros": 5}, ["good", 1], id="a")
    queue.consume(lambda _message: None, until_empty=True)
    assert json_of(cli, "get", "jobs", "good", "1", "--id", "a")["message"]["body"] == {"euros": 5}
    assert '{"euros":5}' in cli.call("history", "jobs").stdout
    said = [json_of(cli, "rerun", "jobs", "good", "1", "--id", "a") for _ in range(2)]
    assert [(one["rerun_as"], one["duplicate"]) for one in said] == [("a~2", False), ("a~2", True)]
    assert json_of(cli, "get", "jobs", "good", "1", "--id", "a~2")["rerun_of"] == "a"
