"""Alerts by real processes: masters and watchers that are killed as they tell, and the commands of whom they tell."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sequencer import EmbeddedServer, Message, Sequencer
from sequencer.doctor.rights import acl_rules
from sequencer.errors import Park
from sequencer.net.link import Link
from sequencer.store.keys import shard_keys
from sequencer.testing import wait_until

from ..support.run_scene import PATIENCE_S, RunScene
from ..support.said import json_of, refused
from .conftest import Cli

TELL = """
import json, os, signal, sys

notice, deaths = json.load(sys.stdin), sys.argv[1:]
with open("attempts", "ab", buffering=0) as attempts:
    attempts.write(b"x")
death = dict(enumerate(deaths)).get(os.path.getsize("attempts") - 1)
if death == "before":
    os.kill(os.getppid(), signal.SIGKILL)
    sys.exit(1)
with open("told.ndjson", "ab", buffering=0) as told:
    told.write(json.dumps(notice).encode() + b"\\n")
if death == "after":
    os.kill(os.getppid(), signal.SIGKILL)
"""
END_HOLDS = """
local record = cjson.decode(redis.call('HGET', KEYS[1], 'parked'))
for _, to in pairs(record.to) do to.hold = '0' end
redis.call('HSET', KEYS[1], 'parked', cjson.encode(record))
"""


def write(directory: Path, *deaths: str, more: str = "", top: str = "check_every = '0.1s'") -> Path:
    """A file whose only target writes down what it is told, and kills who tells it."""
    (directory / "tell.py").write_text(TELL)
    words = json.dumps(" ".join([sys.executable, "tell.py", *deaths]))
    path = directory / "sequencer.toml"
    path.write_text(
        f"{top}\n[queues.jobs]\nexec = 'true'\nn = 0\n"
        f"[targets.ops]\ntype = 'command'\ntimeout = '8s'\nexec = {words}\n{more}"
    )
    return path


def told(directory: Path) -> list[dict[str, Any]]:
    path = directory / "told.ndjson"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def park(seq: Sequencer, *groups: str) -> None:
    def handle(message: Message) -> None:
        raise Park("no such card")

    for group in groups:
        seq.append({"card": "SECRET"}, group, id="m")
    seq.consume(handle, until_empty=True)


def test_whoever_dies_as_it_tells_another_tells_under_the_same_key(
    cli: Cli, make: Callable[..., Sequencer], link: Link, namespace: str
) -> None:
    seq, keys = make(), shard_keys(namespace, "jobs", 0)
    park(seq, "ann")
    write(cli.directory, "before", "after")
    watchers = [cli.start("watch") for _ in range(3)]
    for dead in (1, 2):
        wait_until(
            lambda dead=dead: sum(one.process.poll() is not None for one in watchers) == dead,  # type: ignore[misc]
            PATIENCE_S,
            f"{dead} killed",
        )
        link.command("EVAL", END_HOLDS, 1, keys.alerts)
    wait_until(lambda: [to.messages for to in seq.alerts()[0].notified] == [1], PATIENCE_S, "the third tells it")
    first, second = told(cli.directory)
    assert first["key"] == second["key"]
    assert [one["id"] for one in second["items"]] == ["m"]
    (left,) = [one for one in watchers if one.process.poll() is None]
    left.stop()
    assert "SECRET" not in (cli.directory / "told.ndjson").read_text()


def test_a_master_tells_and_goes_on(cli: Cli, make: Callable[..., Sequencer]) -> None:
    scene, seq = RunScene(cli.directory, make), make()
    write(cli.directory, more="[queues.orders]\napp = 'none:seq'\n")
    with scene.master() as master:
        wait_until(lambda: "pool" in [one["kind"] for one in told(cli.directory)], PATIENCE_S, "a pool is down")
        ((line,),) = [one["commands"] for one in told(cli.directory) if one["kind"] == "pool"]
        assert line == f"sequencer run {cli.directory / 'sequencer.toml'} --status"
        assert "orders" in cli.call(*shlex.split(line)[1:]).stdout
        park(seq, "ann")
        wait_until(lambda: "parked" in [one["kind"] for one in told(cli.directory)], PATIENCE_S, "a group is parked")
        hangs = "[targets.slow]\ntype = 'command'\nexec = 'sleep 1000'\n"
        write(cli.directory, more=hangs)  # the pool that is down is named no more
        master.reload()
        park(seq, "bob")
        seq.resume_many(everything=True)
        seq.consume(lambda message: None, until_empty=True)
        wait_until(
            lambda: ("parked", "resolved") in [(one["kind"], one["what"]) for one in told(cli.directory)],
            PATIENCE_S,
            "it is over",
        )
    assert [one["what"] for one in told(cli.directory) if one["kind"] == "parked"] == ["open", "resolved"]


def test_who_stops_waits_for_the_answer_to_what_is_under_way(cli: Cli, make: Callable[..., Sequencer]) -> None:
    seq = make()
    park(seq, "ann")
    write(cli.directory, more="[alerts]\nto = ['slow', 'ops']\n[targets.slow]\ntype = 'command'\nexec = './slow'\n")
    slow = cli.directory / "slow"
    slow.write_text("#!/bin/sh\ntouch began\nsleep 1\n")
    slow.chmod(0o700)
    watcher = cli.start("watch")
    wait_until((cli.directory / "began").exists, PATIENCE_S, "it tells")
    watcher.stop()
    assert {to.target: to.messages for to in seq.alerts()[0].notified}["slow"] == 1


def test_watch_says_why_it_sees_nothing(
    cli: Cli, make: Callable[..., Sequencer], server: EmbeddedServer, link: Link, namespace: str
) -> None:
    make().append({}, "ann")
    write(cli.directory)
    (cli.directory / "none.toml").write_text("[queues.jobs]\nexec = 'true'\n")
    assert "[alerts]" in refused(cli, "watch", "none.toml")
    user = f"{namespace}-looks"
    link.command("ACL", "SETUSER", user, "on", ">x", "resetchannels", *acl_rules(namespace, "operate"), "-hdel")
    path = (server.url or "").removeprefix("unix://").rpartition("@")[2]
    once = cli.run("watch", "--once", SEQUENCER_REDIS=f"unix://{user}:x@{path}")
    link.command("ACL", "DELUSER", user)
    assert (once.returncode, once.stdout) == (3, "no open incidents\n")
    assert "+hdel" in once.stderr
    assert "Traceback" not in once.stderr


@pytest.fixture
def absent(server: EmbeddedServer) -> Iterator[Path]:
    """Where no server is: a link to the socket of one makes it come back."""
    directory = Path(tempfile.mkdtemp(prefix="sqa-"))
    yield directory / "s"
    shutil.rmtree(directory)


AWAY = "[alerts]\naway = '0.3s'\n"


def whats(directory: Path) -> list[tuple[str, str]]:
    return [(one["kind"], one["what"]) for one in told(directory)]


def test_that_the_server_is_away_is_told_and_that_it_is_back(cli: Cli, server: EmbeddedServer, absent: Path) -> None:
    write(cli.directory, more=AWAY)
    once = cli.run("watch", "--once", SEQUENCER_REDIS=f"unix://{absent}")
    assert once.returncode == 3, once.stderr
    assert told(cli.directory) == [], "the exit code says it"
    watcher = cli.start("watch", SEQUENCER_REDIS=f"unix://{absent}")
    wait_until(lambda: whats(cli.directory) == [("away", "open")], PATIENCE_S, "it is told")
    absent.symlink_to(server.socket)
    wait_until(lambda: len(whats(cli.directory)) == 2, PATIENCE_S, "that it is back too")
    watcher.stop()
    assert whats(cli.directory) == [("away", "open"), ("away", "resolved")]
    first, last = told(cli.directory)
    assert (first["incident"], first["queue"]) == (last["incident"], "")
    assert f":away@{first['host']}:" in first["incident"]
    assert watcher.stderr.count("alert sent") == 2


@pytest.mark.nightly
def test_a_master_that_reads_its_file_again_still_knows_that_the_server_is_away(
    cli: Cli, server: EmbeddedServer, absent: Path, make: Callable[..., Sequencer]
) -> None:
    scene = RunScene(cli.directory, make)
    write(cli.directory, more=AWAY)
    with scene.master(f"unix://{absent}") as master:
        wait_until(lambda: whats(cli.directory) == [("away", "open")], PATIENCE_S, "it is told")
        before = master._watcher
        master.reload()
        wait_until(lambda: master._watcher is not before, PATIENCE_S, "it has read its file")
        absent.symlink_to(server.socket)
        wait_until(lambda: len(whats(cli.directory)) == 2, PATIENCE_S, "it is over")
    assert whats(cli.directory) == [("away", "open"), ("away", "resolved")]


def test_watch_once_says_what_is_open_and_tells_it(cli: Cli, make: Callable[..., Sequencer]) -> None:
    seq = make()
    write(cli.directory, more="[alerts]\nlag = '0'\n")
    once = cli.call("watch", "--once")
    assert (once.returncode, once.stdout) == (0, "no open incidents\n")
    park(seq, "ann")
    again = cli.call("watch", "--once", "--json")
    assert again.returncode == 6
    (one,) = json.loads(again.stdout)
    assert (one["kind"], one["text"], one["notified"][0]["messages"]) == ("parked", "1 group parked", 1)
    assert cli.call("watch", "--once").returncode == 6
    assert len(told(cli.directory)) == 1
    (row,) = cli.call("alerts").stdout.splitlines()[1:]
    assert row.split()[:2] == ["jobs", "parked"]
    assert [one["kind"] for one in json_of(cli, "alerts", "jobs")] == ["parked"]
    assert cli.call("alerts", "nobody").returncode == 2


def test_a_target_is_tried_without_a_server(cli: Cli) -> None:
    """`tee` is there at once; an interpreter might need longer than a target may, on a machine that is busy."""
    commands = {"bad": "false", "fine": "tee told.ndjson"}
    write(cli.directory, more="".join(f"[targets.{k}]\ntype = 'command'\nexec = '{v}'\n" for k, v in commands.items()))
    fine = cli.call("alerts", "--test", "fine", SEQUENCER_REDIS="redis://127.0.0.1:1")
    assert (fine.returncode, fine.stdout, fine.stderr) == (0, "fine (command) accepted the test\n", "")
    assert told(cli.directory)[0]["what"] == "test"
    assert cli.call("alerts", "--test", "bad").returncode == 1
    assert "'opps'" in refused(cli, "alerts", "--test", "opps")
