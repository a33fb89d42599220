"""The supervisor: it replaces, recycles and gives up, and says by its exit status and one sentence how it ended."""

from __future__ import annotations

import json
import os
import signal
import socket
import time

import pytest

from sequencer.testing import wait_until

from ..support.processes import command_line
from ..support.run_scene import PATIENCE_S
from .conftest import Cli, Work

APP = ("consume", "jobs", "--app", "shop:handle")


def test_a_consumer_that_died_is_replaced(cli: Cli, work: Work) -> None:
    consume = cli.start(*APP, "-n", 2)

    def two_without(*gone: int) -> list[int]:
        found = consume.consumers()
        return found if len(found) == 2 and not {*gone} & {*found} else []

    first = wait_until(two_without, PATIENCE_S, "two consumers")
    os.kill(first[0], signal.SIGKILL)

    second = wait_until(lambda: two_without(first[0]), PATIENCE_S, "two consumers again")
    assert first[1] in second, "the other one is left alone"
    assert f"consumer died: pid {first[0]} (signal SIGKILL)" in consume.stderr
    work.add("a", {"gate": "gate"})
    work.add("b", {"gate": "gate"})
    assert sorted(work.wait_begun(f"{group}-0")["pid"] for group in "ab") == second, "both of them work"
    cli.open("gate")
    wait_until(lambda: work.states() == {}, PATIENCE_S)
    consume.stop()
    assert "1 dead consumer" in consume.stderr


def test_consumers_are_interpreters_of_their_own_in_sessions_of_their_own(cli: Cli, work: Work) -> None:
    work.add("a", {"gate": "gate"})
    work.add("b", {"gate": "gate"})
    consume = cli.start(*APP, "-n", 2)
    work.wait_begun("a-0")
    work.wait_begun("b-0")
    pids = consume.consumers()
    assert sorted(event["pid"] for event in work.events("begun")) == pids
    assert all("-m sequencer.processes.worker.run" in command_line(pid) for pid in pids), "started, not forked"
    assert len({os.getsid(pid) for pid in [*pids, consume.pid]}) == 3
    cli.open("gate")


def test_it_gives_up_when_consumers_die_before_they_begin_and_loses_nothing(cli: Cli, work: Work) -> None:
    """Only there: in the supervisor, which looks at the application as well, it does not."""
    (cli.directory / "late.py").write_text(
        "import os, sys\nif sys.argv[0].endswith('worker/run.py'):\n    os._exit(7)\n\ndef handle(message): ...\n"
    )
    work.add("a", {})
    consume = cli.start("consume", "jobs", "--app", "late:handle", "-n", 2)
    assert consume.ended() == 1
    assert "service gave up: every worker lost 5 consumers" in consume.stderr
    assert "10 dead consumers" in consume.stderr
    assert work.states() == {"a": "due"}


def test_an_app_that_loads_no_more_ends_the_service_at_once_and_the_deaths_are_counted(cli: Cli, work: Work) -> None:
    app = cli.directory / "late.py"
    app.write_text("def handle(message): ...\n")
    consume = cli.start("consume", "jobs", "--app", "late:handle")
    work.add("a", {})
    wait_until(lambda: work.states() == {}, PATIENCE_S, "it works")
    app.write_text("raise ImportError('half written')\n")
    for pid in consume.consumers():
        os.kill(pid, signal.SIGKILL)
    assert consume.ended() == 2
    assert "service gave up: a consumer died for the reason" in consume.stderr
    assert "2 dead consumers" in consume.stderr


def test_a_consumer_is_recycled_after_max_messages(cli: Cli, work: Work) -> None:
    work.add("a", *[{}] * 5)
    work.add("b", *[{}] * 5)
    consume = cli.start(*APP, "--max-messages", 4, "--until-empty")
    assert consume.ended() == 0
    handled = [event["pid"] for event in work.events("handled")]
    assert [handled.count(pid) for pid in dict.fromkeys(handled)] == [4, 4, 2]
    assert work.verdict().is_clean(), work.verdict()
    assert "consumed 10 messages" in consume.stderr, "each of them has reported"
    assert "dead consumer" not in consume.stderr


@pytest.mark.nightly
def test_a_consumer_is_recycled_after_max_age(cli: Cli, work: Work) -> None:
    work.add("a", {})
    consume = cli.start(*APP, "--max-age", 0.3)
    first = work.wait_begun("a-0")["pid"]
    wait_until(lambda: first not in cli.left(), PATIENCE_S, "it ends by age")
    work.add("a", {})
    assert work.wait_begun("a-1")["pid"] != first
    consume.stop()
    assert "dead consumer" not in consume.stderr


def test_an_app_of_another_queue_is_wrong_use(cli: Cli) -> None:
    done = cli.run("consume", "other", "--app", "shop:seq")
    assert done.returncode == 2
    assert "sequencer consume jobs --app shop:seq" in done.stderr


@pytest.mark.parametrize("command", ["append", "consume", "info"])
def test_a_server_that_is_not_there_is_said(cli: Cli, command: str) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound and not listening: nobody else can take the port meanwhile
        url = f"redis://127.0.0.1:{closed.getsockname()[1]}"
        done = (cli.run if command == "consume" else cli.call)(command, "jobs", "--redis", url)
    assert done.returncode == 3
    assert url in done.stderr


def test_an_exit_out_of_a_handler_is_a_death_and_parks_its_group_in_the_end(cli: Cli, work: Work) -> None:
    """Whatever its status, also one by which a consumer says that it is drained, recycled or misused. After as many
    deaths in a row at a start the service gives up; these consumers had begun.
    """
    statuses = [0, 2, 7, 64, 65]
    for status in statuses:
        work.add(f"exits {status}", {"exit": status}, {})
    work.add("good", {}, {})
    consume = cli.start(*APP, "--max-attempts", 1, "--lease", 0.3, "--until-empty")
    assert consume.ended(90.0) == 4
    assert [status for status in statuses if f"(exit status {status})" not in consume.stderr] == []
    assert f"{len(statuses)} dead consumers" in consume.stderr
    assert "gave up" not in consume.stderr
    assert work.states() == {f"exits {status}": "parked" for status in statuses}
    assert len(work.events("handled")) == 2


@pytest.mark.nightly
def test_what_a_killed_consumer_had_handled_counts_also_of_the_group_in_hand(cli: Cli, work: Work) -> None:
    work.add("a", {}, {}, {}, {"gate": "never"})
    consume = cli.start(*APP, "--json", "--lease", 20)
    begun = work.wait_begun("a-3")
    wait_until(lambda: time.monotonic() > begun["at"] + 2.5, PATIENCE_S, "a report, each second")
    os.kill(begun["pid"], signal.SIGKILL)
    consume.wait_for("consumer died")
    consume.stop()
    told = json.loads(consume.stdout)
    assert (told["handled"], told["unreported"]) == (3, 1), "the group in progress ended with the next consumer"


def test_without_grace_a_consumer_may_still_exit(cli: Cli, work: Work) -> None:
    """What it does at its exit, as sending its last errors to Sentry, is not cut."""
    (cli.directory / "leaving.py").write_text(
        "import atexit, pathlib, time\n"
        "def leave():\n    time.sleep(0.3)\n    pathlib.Path('left').touch()\n"
        "atexit.register(leave)\n"
        "def handle(message): pass\n"
    )
    work.add("a", {})
    done = cli.run("consume", "jobs", "--app", "leaving:handle", "--until-empty", "--grace", "0")
    assert done.returncode == 0
    assert "consumer killed" not in done.stderr
    assert (cli.directory / "left").exists()
