"""`sequencer doctor`, `acl` and `check`: what they print, as lines and as JSON, and their exit codes."""

from __future__ import annotations

import json

from sequencer import Message, Park, Sequencer, SetAside
from sequencer.doctor.rights import acl_rules
from sequencer.net.link import Link
from sequencer.store.keys import shard_keys

from ..server.test_no_consumers import wait_for
from ..support.said import refused
from .conftest import Cli

CHECKS = ("version", "role", "eviction", "persistence", "replicas", "clock", "rights", "invariants")


def test_a_healthy_server_gets_one_line_a_check(cli: Cli, seq: Sequencer) -> None:
    seq.append(1, group="g")
    done = cli.call("doctor")
    assert (done.returncode, done.stderr) == (0, "")
    lines = [line.split(maxsplit=2) for line in done.stdout.splitlines()[1:]]
    assert [line[1] for line in lines if line] == list(CHECKS)
    assert {line[0] for line in lines if line} <= {"ok", "warning"}


def test_problems_are_code_5_until_all_are_repaired(cli: Cli, seq: Sequencer, link: Link, namespace: str) -> None:
    keys = shard_keys(namespace, "jobs", 0)
    seq.append(1, group=["g", "x"], id="m")
    link.command("DEL", keys.schedule)
    link.command("SET", f"{keys.prefix}odd", 1)
    assert cli.call("doctor", "jobs").returncode == 5
    first = cli.call("doctor", "jobs", "--repair")
    assert first.returncode == 5
    assert "repaired  schedule" in first.stdout
    assert "problem   keys" in first.stdout
    link.command("DEL", f"{keys.prefix}odd", keys.schedule)
    said = cli.call("doctor", "jobs", "--repair", "--json")
    assert said.returncode == 0
    findings = json.loads(said.stdout)
    (repaired,) = [one for one in findings if one["repaired"]]
    assert {"code": "group unscheduled", "check": "schedule", "level": "problem"}.items() <= repaired.items()
    assert repaired["fields"]["group"] == ["g", "x"]
    assert repaired["text"].endswith("; repaired: due now")
    assert cli.call("doctor", "jobs").returncode == 0
    assert seq.explain(["g", "x"]).reason in ("due", "no consumers"), "the latter on a slow machine"


def test_json_lists_each_thing_that_is_broken(cli: Cli, seq: Sequencer, link: Link, namespace: str) -> None:
    """A person is shown 50 of a kind; a script takes lost ids from the whole list."""
    keys = shard_keys(namespace, "jobs", 0)
    seq.append_many({"body": n, "group": ["g", "x"], "id": f"m{n}"} for n in range(70))
    link.command("DEL", keys.body("g:x"))
    assert " 20 more " in cli.call("doctor", "jobs").stdout
    for words in (("--json",), ("--repair", "--json")):
        findings = json.loads(cli.call("doctor", "jobs", *words).stdout)
        lost = [one["fields"]["id"] for one in findings if one["code"] == "message without record"]
        assert sorted(lost) == sorted(f"m{n}" for n in range(70))
        assert "more" not in [one["code"] for one in findings]


def test_the_least_rights_of_a_role_are_printed(cli: Cli, seq: Sequencer, link: Link, namespace: str) -> None:
    """As words for ACL SETUSER, with which the role's work can be done, and no other's."""
    path = (seq.endpoint.url or "").removeprefix("unix://").rpartition("@")[2]
    for role in ("append", "consume"):
        words = cli.call("acl", role, "jobs").stdout.split()
        assert words[:2] == ["resetchannels", f"~{{{namespace}:jobs:*"]
        link.command("ACL", "SETUSER", role, "reset", "on", ">x", *words)
    producer, consumer = (f"unix://{role}:x@{path}" for role in ("append", "consume"))
    line = '{"group": ["g"], "body": 1}\n'
    assert cli.call("append", "jobs", "--redis", producer, input=line).returncode == 0
    assert cli.run("consume", "jobs", "--redis", producer, "--exec", "true", "--until-empty").returncode == 3
    assert cli.run("consume", "jobs", "--redis", consumer, "--exec", "true", "--until-empty").returncode == 0
    assert cli.call("append", "other", "--redis", producer, input=line).returncode == 3
    link.command("ACL", "DELUSER", "append", "consume")


def test_a_wider_role_has_more_rights_and_an_unknown_one_names_the_nearest(cli: Cli) -> None:
    narrow, wide = (set(acl_rules("shop", role)) for role in ("operate", "admin"))
    assert "+scan" in wide - narrow
    assert {"+multi", "+zscore"} <= narrow < wide
    assert "'admin'" in refused(cli, "acl", "adminn")


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
    assert text.stdout.splitlines()[1].split()[:4] == ["exceeded", "parked", "1", "0"]
    assert cli.call("check", "jobs", "--max-parked", 1).returncode == 0, "as many as are allowed"


def test_what_is_no_limit_is_wrong_use(cli: Cli, seq: Sequencer) -> None:
    seq.append(1, group="g")
    for words in ((), ("--max-wait", "60 sec")):
        assert refused(cli, "check", "jobs", *words)


def test_an_outage_is_seen_and_holds_all_but_its_probe(seq: Sequencer) -> None:
    def away(_message: object) -> None:
        raise ConnectionError("away")

    seq.append_many({"body": n, "group": ["p", n]} for n in range(6))
    seq.consume(away, max_messages=5)
    snapshot = seq.snapshot()
    assert (snapshot.has_outage, snapshot.due) == (True, 0)
