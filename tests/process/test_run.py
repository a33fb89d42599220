"""`sequencer run`: the command with real signals, its answers to --check and --status, and what systemd hears."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sequencer.net.link import Link
from sequencer.store.keys import registry_key
from sequencer.testing import wait_until

from ..support.processes import command_line
from ..support.run_scene import PATIENCE_S, RunScene
from .conftest import Cli, Running


def status(cli: Cli) -> dict[str, Any]:
    done = cli.call("run", "--status", "--json")
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def wait_ready(cli: Cli, running: Running, count: int) -> None:
    def is_ready() -> bool:
        done = cli.call("run", "--status", "--json")
        if done.returncode:
            return False
        pools = json.loads(done.stdout)["pools"]
        return [one["state"] for pool in pools for one in pool["processes"]] == ["working"] * count

    wait_until(is_ready, PATIENCE_S, "all consumers are connected")


def test_many_queues_each_with_its_own_surroundings(cli: Cli, scene: RunScene) -> None:
    (cli.directory / "post").mkdir()
    scene.write_file(
        "environment = 'tests'",
        orders="n = 2; env = { TZ = 'Asia/Tokyo' }; max_age = '1h'; hang_after = '1m'",
        mails="""exec = 'cat > "$NAME.json"'; cwd = 'post'; env = { NAME = 'last' }""",
    )
    scene.append("orders", [{}, {}, {}])
    running = cli.start("run")
    scene.append("mails", [{"to": "ann"}])
    scene.wait_handled("orders", 3)
    wait_until((cli.directory / "post" / "last.json").exists, PATIENCE_S, "the command ran in its folder")
    assert {event["tz"] for event in scene.events("orders", "handled")} == {"Asia/Tokyo"}
    wait_ready(cli, running, 3)
    (at,) = (cli.directory / "home").glob("run-*.sock")
    assert stat.S_IMODE(at.stat().st_mode) == 0o600
    wait_until(lambda: status(cli)["pools"][0]["handled"] == 3, PATIENCE_S, "it is counted")
    told = status(cli)
    assert (told["environment"], told["state"], told["processes"]) == ("tests", "running", 3)
    orders, mails = told["pools"]
    assert (orders["queue"], orders["state"], orders["n"], len(orders["processes"])) == ("orders", "running", 2, 2)
    assert sorted(one["pid"] for pool in (orders, mails) for one in pool["processes"]) == running.consumers()
    shown = [command_line(pid).split()[-1] for pid in running.consumers()]
    assert sorted(shown) == ["mails", "orders", "orders"], "ps names the queue"
    text = cli.call("run", "--status").stdout
    assert [line.split()[0] for line in text.splitlines()[1:]] == ["queue", "orders", "mails"]
    running.stop()
    assert "orders: consumed 3 messages in " in running.stderr
    assert "Traceback" not in running.stderr
    assert not at.exists()
    assert cli.call("run", "--status").returncode == 2


def test_new_code_takes_over_consumer_by_consumer_and_nothing_is_lost_or_done_twice(cli: Cli, scene: RunScene) -> None:
    """SIGHUP to the whole group of processes, under load, twice: with new code, and with code that does not load."""
    scene.write_file(orders="n = 3", mails="n = 1")
    scene.append("orders", [{"seconds": 0.01}] * 100)
    running = cli.start("run")
    wait_ready(cli, running, 4)
    scene.wait_handled("orders", 20)
    first = set(running.consumers())
    scene.write_app(2, end="raise ImportError('half written')\n")
    for pid in (running.pid, *first):
        os.kill(pid, signal.SIGHUP)
    wait_until(lambda: running.stderr.count("reload failed") == 2, PATIENCE_S, "both queues keep their consumers")
    assert set(running.consumers()) == first, running.stderr
    scene.write_app(2)
    groups = ("more", "next", "slow")
    for group in groups:
        scene.append("orders", [{}, {"gate": "gate"}, *[{}] * 98], group)
    wait_until(lambda: len(scene.ids("orders", "begun")) == 106, PATIENCE_S, "each consumer has one in progress")
    running.signal(signal.SIGHUP)
    running.wait_for("service reloaded: ")
    assert len(first & set(running.consumers())) == 3, "the old ones of orders finish what they have"
    cli.open("gate")
    scene.wait_handled("orders", 400)
    wait_until(lambda: not first & set(running.consumers()), PATIENCE_S, "the old ones are gone")
    running.stop()
    events = scene.events("orders", "handled")
    assert sorted(scene.ids("orders")) == sorted(f"{name}{n}" for n in range(100) for name in ("m", *groups))
    assert sorted(scene.ids("orders", "begun")) == sorted(scene.ids("orders")), "no handler was interrupted"
    assert Counter(event["version"] for event in events) == {1: 106, 2: 294}
    for group in groups:
        assert [one for one in scene.ids("orders") if one.startswith(group)] == [f"{group}{n}" for n in range(100)]
    assert "dead consumer" not in running.stderr


def test_a_new_queue_is_as_its_app_and_the_file_ask_for_it(cli: Cli, scene: RunScene) -> None:
    end = 'split = Sequencer("split", namespace=os.environ["SEQUENCER_NAMESPACE"], shards=2)\nsplit.handler(print)\n'
    scene.write_app(end=end)
    scene.write_file(split="sequence = true; dead_window = '9d'; max_attempts = 2")
    running = cli.start("run")
    wait_ready(cli, running, 1)
    shown = json.loads(cli.call("configure", "split", "--json").stdout)["policy"]
    assert (shown["sequence"], shown["dead_window"]) == (True, 9 * 86_400)
    assert json.loads(cli.call("info", "split", "--json").stdout)["shards"] == 2
    running.stop()


def test_queues_come_and_go_with_the_file(cli: Cli, scene: RunScene) -> None:
    scene.write_file(orders="n = 1", mails="n = 1")
    scene.append("mails", [{"gate": "gate"}, {}], group="a")
    running = cli.start("run")
    wait_until(lambda: scene.ids("mails", "begun"), PATIENCE_S, "a message is in progress")
    scene.write_file(orders="n = 2", bills="n = 1")
    running.signal(signal.SIGHUP)
    scene.append("bills", [{}])
    scene.wait_handled("bills", 1)
    wait_until(lambda: [pool["queue"] for pool in status(cli)["pools"]] == ["orders", "mails", "bills"], PATIENCE_S)
    assert status(cli)["pools"][1]["state"] == "stopping"
    cli.open("gate")
    wait_until(
        lambda: [pool["queue"] for pool in status(cli)["pools"]] == ["orders", "bills"], PATIENCE_S, "it is gone"
    )
    assert scene.ids("mails") == ["a0"], "what ran was finished, and nothing begun"
    wait_until(lambda: len(running.consumers()) == 3, PATIENCE_S, "orders have two")
    running.stop()


@pytest.mark.nightly
def test_a_stop_does_not_hurry_a_queue_that_the_file_does_not_name_any_more(cli: Cli, scene: RunScene) -> None:
    """It is at the first stage already; the first signal is no second one for it."""
    scene.write_file(orders="n = 1", mails="n = 1")
    scene.append("mails", [{"gate": "gate"}])
    running = cli.start("run")
    wait_until(lambda: scene.ids("mails", "begun"), PATIENCE_S, "a message is in progress")
    scene.write_file(orders="n = 1")
    running.signal(signal.SIGHUP)
    running.wait_for("mails: service stopping: ")
    running.signal()
    running.wait_for("orders: service stopping: ")
    cli.open("gate")
    assert running.ended() == 0
    assert scene.ids("mails") == ["m0"]


def test_a_second_signal_interrupts_the_handlers_of_all_queues(cli: Cli, scene: RunScene) -> None:
    scene.write_file(orders="n = 1; lease = '20s'", mails="n = 1; lease = '20s'; grace = '0.1s'")
    scene.append("orders", [{"gate": "never"}])
    scene.append("mails", [{"gate": "never"}])
    running = cli.start("run")
    wait_until(lambda: scene.ids("orders", "begun") and scene.ids("mails", "begun"), PATIENCE_S, "both are in progress")
    running.signal(signal.SIGINT)
    running.wait_for("orders: service stopping: ")
    wait_until(lambda: running.stderr.count("mails: service stopping: ") == 2, PATIENCE_S, "its grace is over")
    running.signal(signal.SIGINT)
    assert running.ended() == 0
    assert "Traceback" not in running.stderr
    assert "consumer killed" not in running.stderr


def test_systemd_hears_ready_reloading_and_stopping(cli: Cli, scene: RunScene) -> None:
    scene.write_file(orders="n = 1", mails="n = 0")
    at = cli.directory / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as hears:
        hears.bind(str(at))
        hears.settimeout(PATIENCE_S)
        running = cli.start("run", NOTIFY_SOCKET=str(at))

        def next_word() -> str:
            return hears.recv(4096).decode()

        assert next_word() == "READY=1\nSTATUS=2 pools, 1 consumer"
        running.signal(signal.SIGHUP)
        reloading = next_word().splitlines()
        assert reloading[0] == "RELOADING=1"
        assert reloading[1].startswith("MONOTONIC_USEC=")
        assert next_word().startswith("READY=1\n")
        running.signal()
        assert next_word() == "STOPPING=1"
    assert running.ended() == 0


def test_check_loads_each_app_in_its_own_surroundings_and_prints_the_plan(cli: Cli, scene: RunScene) -> None:
    inner = cli.directory / "inner"
    inner.mkdir()
    (inner / "own.py").write_text("import os\nassert os.environ['OWN'] == 'yes'\n\ndef handle(message): ...\n")
    scene.write_file(
        orders="n = 2; max = 5; check = 'shop:look'",
        mails="app = 'own:handle'; cwd = 'inner'; env = { OWN = 'yes' }",
        bills="exec = 'true'; n = 0",
    )
    done = cli.run("run", "--check")
    assert (done.returncode, done.stderr) == (0, "")
    rows = [line.split() for line in done.stdout.splitlines()]
    assert [row[0] for row in rows] == ["queue", "orders", "mails", "bills"]
    assert rows[1][1:6] == ["app", "shop:orders", "2", "5", "15"]
    assert rows[2][1:3] == ["app", "own:handle"]
    assert "append, consume, operate" in done.stdout
    told = json.loads(cli.run("run", "--check", "--json").stdout)
    assert told["is_fine"] is True
    assert [queue["handles"] for queue in told["queues"]][2] == "command 'true'"


def test_check_names_all_that_is_wrong(cli: Cli, scene: RunScene) -> None:
    (cli.directory / "dead.py").write_text("import os\nos._exit(7)\n")
    elsewhere = "from sequencer import Sequencer\nseq = Sequencer('bills', 'redis://127.0.0.1:1/0')\n"
    (cli.directory / "other.py").write_text(elsewhere + "@seq.handler\ndef handle(message): ...\n")
    scene.write_file(
        orders="app = 'shop:mails'",
        mails="app = 'shop:mials'; check = 'shop:VERSION'",
        bills="app = 'dead:handle'",
        notes="exec = 'no-such-command'",
    )
    done = cli.run("run", "--check")
    assert done.returncode == 2
    problems = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert [line.split(": ")[1] for line in problems] == ["orders", "mails", "mails", "bills", "notes"]
    assert "(exit status 7)" in problems[3]
    scene.write_file("namespace = 'sequencer'", bills="app = 'other:seq'")
    wrong = cli.run("run", "--check", "--namespace", "sequencer")
    assert wrong.returncode == 2
    assert "redis://127.0.0.1:1/0" in wrong.stderr


@pytest.mark.nightly
def test_the_second_master_of_a_file_names_the_first_and_works(cli: Cli, scene: RunScene) -> None:
    scene.write_file(orders="n = 1")
    first = cli.start("run")
    wait_ready(cli, first, 1)
    second = cli.start("--log-format", "json", "run")
    wait_until(second.consumers, PATIENCE_S, "it works all the same")
    told = [json.loads(line) for line in second.stderr.splitlines()]
    assert [one["other_pid"] for one in told if one["event"] == "already running"] == [first.pid]
    for master in (second, first):
        assert status(cli)["pid"] == first.pid
        master.stop()
    assert not list(Path(cli.directory / "home").glob("*.sock"))


@pytest.mark.nightly
def test_a_hangup_at_the_start_does_not_end_it(cli: Cli, scene: RunScene) -> None:
    """Its server takes the connection, and says nothing."""
    scene.write_file(orders="n = 1")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(PATIENCE_S)
        running = cli.start("run", SEQUENCER_REDIS=f"redis://127.0.0.1:{silent.getsockname()[1]}/0")
        link, _ = silent.accept()
        running.signal(signal.SIGHUP)
        link.close()
    assert running.ended() == 3, "without a server"


@pytest.mark.nightly
@pytest.mark.parametrize("field", ["policy", "generation"])
def test_a_queue_that_can_not_be_used_keeps_no_other_from_its_consumers(
    cli: Cli, scene: RunScene, link: Link, namespace: str, field: str
) -> None:
    """Its registration can't be read; or it is half deleted."""
    scene.write_file("check_every = '0.1s'", orders="n = 1", mails="n = 1")
    scene.append("orders", [{}])
    scene.append("mails", [{}])
    registry = registry_key(namespace, "mails")
    before = link.command("HGET", registry, field)
    link.command("HSET", registry, field, {"policy": "{", "generation": f"-1.{10**17}"}[field])
    running = cli.start("--log-format", "json", "run")
    scene.wait_handled("orders", 1)
    running.wait_for('"pool down"')
    wait_until(lambda: status(cli)["age_s"] > 3, PATIENCE_S, "many looks")
    assert [pool["state"] for pool in status(cli)["pools"]] == ["running", "down"]
    told = [json.loads(line) for line in running.stderr.splitlines()]
    troubles = [one for one in told if one["event"] == "supervisor error" and one["what"] == "watching the queue"]
    assert [one["queue"] for one in troubles] == ["mails"], "once"
    link.command("HSET", registry, field, before)
    running.stop()


@pytest.fixture
def user(link: Link, namespace: str) -> Iterator[str]:
    link.command("ACL", "SETUSER", namespace, "on", "nopass", "~*", "+@all", "-wait")
    yield namespace
    link.command("ACL", "DELUSER", namespace)


def test_check_names_the_right_to_wait_that_steps_need(cli: Cli, scene: RunScene, link: Link, user: str) -> None:
    cli.environment["SEQUENCER_REDIS"] = cli.environment["SEQUENCER_REDIS"].replace("://", f"://{user}:x@")
    (cli.directory / "steps.py").write_text(
        "from sequencer import Sequencer\n"
        "gifts, mails = (Sequencer(name, namespace=NAMESPACE, wait_replicas=1) for name in ('gifts', 'mails'))\n"
        "@gifts.step(once=True)\ndef charge(message): ...\n"
        "@mails.handler\ndef send(message): ...\n".replace("NAMESPACE", repr(cli.environment["SEQUENCER_NAMESPACE"]))
    )
    scene.write_file(gifts="app = 'steps:gifts'", mails="app = 'steps:mails'")
    done = cli.run("run", "--check")
    assert done.returncode == 2
    problems = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert [line.split(": ")[1] for line in problems] == ["gifts"]
    assert "+wait" in problems[0]
    link.command("ACL", "SETUSER", user, "+wait")
    assert cli.run("run", "--check").returncode == 0
