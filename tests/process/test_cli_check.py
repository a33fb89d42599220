"""`sequencer check`: a line for each limit, and exit code 5 where one is passed."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from sequencer import Message, Park, Sequencer, SetAside
from sequencer.doctor.rights import acl_rules
from sequencer.net.link import Link

from ..server.test_no_consumers import wait_for

if TYPE_CHECKING:
    from .conftest import Cli

ALL = ("--max-wait", "60s", "--max-no-consumers", "60s", "--max-lag", "1h", "--max-backlog", 9, "--max-parked", 0)


def test_within_its_limits_a_queue_is_fine(cli: Cli, seq: Sequencer) -> None:
    seq.append(1, group="g")
    done = cli.call("check", "jobs", *ALL, "--max-dead", 0)
    assert (done.returncode, done.stderr) == (0, "")
    lines = [line.split() for line in done.stdout.splitlines()[1:]]
    assert [line[1] for line in lines] == ["wait", "no_consumers", "lag", "backlog", "parked", "dead"]
    assert {line[0] for line in lines} == {"ok"}


def test_each_limit_that_is_passed_is_named_with_what_shows_it(
    cli: Cli, seq: Sequencer, link: Link, namespace: str
) -> None:
    def give_up(message: Message) -> None:
        raise Park("no") if message.body == 0 else SetAside("no")

    seq.append_many({"body": n, "group": ["p", n]} for n in range(2))
    seq.consume(give_up, until_empty=True)
    seq.append(1, group="late")
    wait_for(link, namespace, 90, "late")
    done = cli.call("check", "jobs", *ALL, "--max-dead", 0, "--json")
    told = json.loads(done.stdout)
    passed = {one["name"]: one for one in told["limits"] if one["is_passed"]}
    assert (done.returncode, told["queue"], told["is_fine"]) == (5, "jobs", False)
    assert list(passed) == ["wait", "no_consumers", "parked", "dead"]
    assert 90 <= passed["wait"]["value"] < 120
    assert (passed["parked"]["value"], passed["parked"]["limit"]) == (1, 0)
    assert passed["parked"]["inspect"] == f"sequencer parked jobs --namespace {namespace}"
    assert passed["dead"]["inspect"] == f"sequencer dead list jobs --namespace {namespace}"
    text = cli.call("check", "jobs", "--max-parked", 0)
    assert text.returncode == 5
    assert text.stdout.splitlines()[1].split()[:4] == ["passed", "parked", "1", "0"]
    assert cli.call("check", "jobs", "--max-parked", 1).returncode == 0, "as many as are allowed"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "say at least one limit, for example --max-wait 60s or --max-parked 0"),
        (("--max-wait", "60 sec"), "'60 sec' must be a number of seconds, or text like"),
        (("--max-lag", "5mn"), "or text like 90s, 5m, 2h, 1d or 500ms; did you mean 'min'?"),
    ],
)
def test_what_is_no_limit_is_wrong_use(cli: Cli, seq: Sequencer, words: tuple[str, ...], said: str) -> None:
    seq.append(1, group="g")
    done = cli.call("check", "jobs", *words)
    assert done.returncode == 2
    assert said in done.stderr


def test_a_paused_queue_has_nothing_due(seq: Sequencer, link: Link, namespace: str) -> None:
    seq.append_many({"body": n, "group": ["p", n]} for n in range(3))
    wait_for(link, namespace, 30, "p:0", "p:1", "p:2")
    snapshot = seq.snapshot()
    assert (snapshot.due, round(snapshot.waits_s), snapshot.is_paused, snapshot.has_outage) == (3, 30, False, False)
    seq.pause(["p", 0])
    wait_for(link, namespace, 60, "p:0")
    wait_for(link, namespace, 20, "p:1")
    snapshot = seq.snapshot()
    assert (snapshot.due, round(snapshot.waits_s)) == (2, 30), "a paused group waits for nobody"
    seq.pause()
    assert (seq.snapshot().due, seq.snapshot().waits_s, seq.snapshot().is_paused) == (0, 0.0, True)
    seq.unpause()


def test_an_outage_is_seen_and_holds_all_but_its_probe(seq: Sequencer) -> None:
    def away(_message: object) -> None:
        raise ConnectionError("away")

    seq.append_many({"body": n, "group": ["p", n]} for n in range(6))
    seq.consume(away, max_messages=5)
    snapshot = seq.snapshot()
    assert (snapshot.has_outage, snapshot.due) == (True, 0)


def test_who_may_only_consume_may_look_too(seq: Sequencer, link: Link, namespace: str) -> None:
    """So does the master of `run`."""
    seq.append(1, group="g")
    user, words = f"{namespace}-looks", acl_rules(namespace, "consume")
    link.command("ACL", "SETUSER", user, "on", ">looks", "resetchannels", *words)
    try:
        (said,) = re.findall(r"unix://(?:[^@]*@)?(.*)", seq.endpoint.url or "")
        with Sequencer("jobs", f"unix://{user}:looks@{said}", namespace=namespace) as looks:
            assert looks.snapshot().due == 1
    finally:
        link.command("ACL", "DELUSER", user)
