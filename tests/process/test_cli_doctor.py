"""`sequencer doctor`: what it prints, as lines and as JSON, and its exit codes before and after a repair."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from sequencer import Sequencer
from sequencer.doctor.rights import acl_rules
from sequencer.net.link import Link
from sequencer.store.keys import shard_keys

if TYPE_CHECKING:
    from .conftest import Cli

CHECKS = ("version", "role", "eviction", "persistence", "replicas", "clock", "rights", "invariants")


def test_a_healthy_server_gets_one_line_a_check(cli: Cli, seq: Sequencer) -> None:
    seq.append(1, group="g")
    done = cli.call("doctor")
    assert (done.returncode, done.stderr) == (0, "")
    lines = [line.split(maxsplit=2) for line in done.stdout.splitlines()[1:]]
    assert [line[1] for line in lines if line] == list(CHECKS)
    assert {line[0] for line in lines if line} <= {"ok", "warning"}
    assert "queue jobs: all hold (groups: 1, messages: 1)" in done.stdout


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
    assert "and 20 more like these" in cli.call("doctor", "jobs").stdout
    for words in (("--json",), ("--repair", "--json")):
        findings = json.loads(cli.call("doctor", "jobs", *words).stdout)
        lost = [one["fields"]["id"] for one in findings if one["code"] == "message without record"]
        assert sorted(lost) == sorted(f"m{n}" for n in range(70))
        assert "more" not in [one["code"] for one in findings]


def test_wrong_use_and_a_server_that_is_not_there(cli: Cli) -> None:
    for words, code, text in (
        (("doctor", "bad name"), 2, "queue 'bad name' must be 1 to 128 characters"),
        (("doctor", "--limit", 0), 2, "--limit"),
        (("doctor", "--redis", "redis://127.0.0.1:1"), 3, "is it running, and the URL right?"),
    ):
        done = cli.call(*words)
        assert (done.returncode, done.stdout) == (code, "")
        assert text in done.stderr


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
    refused = cli.run("consume", "jobs", "--redis", producer, "--exec", "true", "--until-empty")
    assert refused.returncode == 3
    assert "the user lacks" in refused.stderr
    assert cli.run("consume", "jobs", "--redis", consumer, "--exec", "true", "--until-empty").returncode == 0
    assert cli.call("append", "other", "--redis", producer, input=line).returncode == 3
    link.command("ACL", "DELUSER", "append", "consume")


def test_a_wider_role_has_more_rights_and_an_unknown_one_names_the_nearest(cli: Cli) -> None:
    narrow, wide = (set(acl_rules("shop", role)) for role in ("operate", "admin"))
    assert {"+xinfo|stream", "+scan"} <= wide - narrow
    assert {"+multi", "+zscore"} <= narrow < wide
    for role, said in (("boss", "there are: append, consume, operate, admin"), ("adminn", "did you mean 'admin'?")):
        done = cli.call("acl", role)
        assert done.returncode == 2
        assert said in done.stderr
