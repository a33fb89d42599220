"""The commands that look and fix (info, groups, peek, parked, resume, skip), as tables and as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from sequencer import Sequencer
from sequencer.net.link import Link
from sequencer.store.keys import registry_key

from ..support.said import json_of, refused
from .conftest import Cli

STATES = ("parked", "waiting", "leased", "due")


@pytest.fixture
def queue(make: Callable[..., Sequencer]) -> Iterator[Sequencer]:
    """Four groups, one in each state, with two messages each; their second part needs escaping in a key."""
    queue = make()
    for name in STATES:
        queue.append_many({"group": [name, "7:%"], "id": f"{name}-{n}", "score": n, "body": {"n": n}} for n in range(2))
        if name == "due":
            break
        lease = queue.claim(lease=60)
        message = next(iter(lease))
        if name == "parked":
            lease.park(message, "no such item")
        elif name == "waiting":
            lease.nack(message, "not now", after=60)
    yield queue
    lease.release()


def test_info_of_one_queue_and_of_all(cli: Cli, queue: Sequencer, namespace: str) -> None:
    said = json_of(cli, "info", "jobs")
    expected = {"queue": "jobs", "namespace": namespace, "shards": 1, "backlog": 8, "groups": 4}
    expected |= {"due": 1, "leased": 1, "waiting": 1, "parked": 1, "paused": 0, "dead": 0, "is_estimate": False}
    assert {name: said[name] for name in expected} == expected
    assert {name: count for name, count in said["totals"].items() if count} == {"appended": 8, "failed": 2, "parked": 1}
    assert said["lag_s"] > 0
    assert said["append_rate"] == said["handle_rate"] == 0
    assert [one["queue"] for one in json_of(cli, "info")] == ["jobs"]


@pytest.mark.parametrize("words", [("info",), ("alerts",), ("sweep",)])
def test_of_all_queues_one_that_is_half_deleted_is_named_and_left_out(
    cli: Cli, make: Callable[..., Sequencer], link: Link, namespace: str, words: tuple[str, ...]
) -> None:
    make("jobs").append(1, "g")
    make("mails").append(1, "g")
    link.command("HSET", registry_key(namespace, "mails"), "generation", f"-1.{10**17}")
    done = cli.call(*words, "--json")
    assert done.returncode == 0
    assert [line for line in done.stderr.splitlines() if line.startswith("warning: ") and "'mails'" in line]
    assert {one["queue"] for one in json.loads(done.stdout)} <= {"jobs"}
    make("mails").delete()


def test_lists_go_on_behind_the_place_that_they_name(cli: Cli, queue: Sequencer) -> None:
    everything = [one["group"] for one in json_of(cli, "groups", "jobs")]

    def place(*words: str) -> str:
        return cli.call(*words).stdout.partition("--after ")[2].split()[0]

    behind = place("groups", "jobs", "--limit", "3")
    assert [one["group"] for one in json_of(cli, "groups", "jobs", "--after", behind)] == everything[3:]
    assert json_of(cli, "groups", "jobs", "--limit", "3")[-1]["place"] == behind
    assert json_of(cli, "parked", "jobs", "--after", place("parked", "jobs", "--limit", "1")) == []
    assert [one["group"] for one in json_of(cli, "consumers", "jobs")["working"]] == [["leased", "7:%"]]
    queue.skip(["parked", "7:%"], dead_letter=True)
    assert json_of(cli, "dead", "list", "jobs", "--after", place("dead", "list", "jobs", "--limit", "1")) == []
    assert "'7'" in refused(cli, "groups", "jobs", "--after", "7")


def test_tables_are_whole_where_no_terminal_limits_them(cli: Cli, queue: Sequencer) -> None:
    columns = [
        "backlog",
        "lag",
        "groups",
        "due",
        "leased",
        "waiting",
        "parked",
        "paused",
        "dead",
        "in/s",
        "out/s",
        "handled",
    ]
    for words, shown in (
        (("info",), ["queue", *columns, "jobs"]),
        (("groups", "jobs"), ["attempts", "owner / failure", *[f"{state} 7:%" for state in STATES]]),
        (("parked", "jobs"), ["parked 7:%", "parked-0", "Park: no such item"]),
        (("peek", "jobs", "due", "7:%"), ["score", "appended", "due-0", "due-1", '{"n":1}']),
    ):
        table = cli.call(*words).stdout
        assert [text for text in shown if text not in table] == [], f"missing in the table of {words}: {table}"


def test_groups_by_state_and_limit(cli: Cli, queue: Sequencer) -> None:
    everything = json_of(cli, "groups", "jobs")
    assert sorted(group["state"] for group in everything) == sorted(STATES)
    for state in ("leased", "waiting"):
        [group] = json_of(cli, "groups", "jobs", "--state", state)
        assert (group["group"], group["state"], group["backlog"]) == ([state, "7:%"], state, 2)
        assert group["head_id"] == f"{state}-0"
        assert bool(group["owner"]) == (state == "leased")
    assert len(json_of(cli, "groups", "jobs", "--limit", 3)) == 3
    assert "'asleep'" in refused(cli, "groups", "jobs", "--state", "asleep")


def test_peek_shows_the_next_messages_in_order(cli: Cli, queue: Sequencer) -> None:
    said = json_of(cli, "peek", "jobs", "due", "7:%")
    assert [(message["id"], message["body"], message["attempt"]) for message in said] == [
        ("due-0", {"n": 0}, 1),
        ("due-1", {"n": 1}, 1),
    ]
    assert [message["id"] for message in json_of(cli, "peek", "jobs", "due", "7:%", "--limit", 1)] == ["due-0"]
    nothing = cli.call("peek", "jobs", "nobody")
    assert (nothing.returncode, nothing.stdout) == (0, "group nobody has no messages\n")


def test_parked_groups_are_shown_resumed_and_skipped(cli: Cli, queue: Sequencer) -> None:
    [parked] = json_of(cli, "parked", "jobs")
    assert parked["group"] == ["parked", "7:%"]
    assert parked["failure"]["type"] == "Park"
    assert parked["failure"]["message"] == "no such item"
    assert json_of(cli, "resume", "jobs", "parked", "7:%")["resumed"] is True
    assert [json_of(cli, "resume", "jobs", name, "7:%")["resumed"] for name in ("parked", "waiting")] == [False, True]
    assert json_of(cli, "parked", "jobs") == []
    for words in (("skip", "jobs", "due", "7:%"), ("skip", "jobs", "leased", "7:%"), ("resume", "jobs", "nobody")):
        assert refused(cli, *words).startswith("error: ")


def test_texts_of_producers_are_shown_as_they_are(cli: Cli, make: Callable[..., Sequencer]) -> None:
    queue = make()
    queue.append("see [items] in [/shelf]", ["[/b]", "[g]"], id="[red]id")
    queue.append("x", "a", id="clear\x1b[2Jscreen")
    for _ in range(2):
        with queue.claim() as lease:
            lease.park(next(iter(lease)), "no [items] in [/shelf]")
    for words, shown in (
        (("peek", "jobs", "[/b]", "[g]"), ["[red]id", "see [items] in [/shelf]"]),
        (("parked", "jobs"), ["'[/b]' '[g]'", "Park: no [items] in [/shelf]"]),
        (("peek", "jobs", "a"), ["clear", "screen"]),
    ):
        done = cli.call(*words, COLUMNS="200")
        assert done.returncode == 0, done.stderr
        assert [text for text in shown if text not in done.stdout] == []
        assert "\x1b" not in done.stdout, "no escape sequence of a producer reaches the terminal"


def test_resume_says_of_a_paused_group_that_it_waits(cli: Cli, queue: Sequencer) -> None:
    queue.pause(["waiting", "7:%"])
    said = json_of(cli, "resume", "jobs", "waiting", "7:%")
    assert said == {"group": ["waiting", "7:%"], "resumed": True, "paused": True}
