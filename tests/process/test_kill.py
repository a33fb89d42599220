"""Consumers that are killed or paused, and handlers that run long: nobody else waits, order holds, nothing is lost."""

from __future__ import annotations

import os
import signal

import pytest

from sequencer.testing import wait_until

from ..support.run_scene import PATIENCE_S
from .conftest import Cli, Work

LEASE_S = 1.5
CONSUME = ("consume", "jobs", "--app", "shop:handle", "--lease", LEASE_S)


def test_a_killed_consumer_delays_its_group_by_one_lease(cli: Cli, work: Work) -> None:
    work.add("a", {}, {}, {"gate": "gate"}, *[{}] * 7)
    consume = cli.start(*CONSUME, "-n", 2)
    begun = work.wait_begun("a-2")
    wait_until(lambda: work.head("a") == ("a-2", 1), PATIENCE_S, "what was finished is acknowledged")
    os.kill(begun["pid"], signal.SIGKILL)
    cli.open("gate")

    for group in "bcdef":
        work.add(group, *[{}] * 4)
    work.wait_handled("a-9", *(f"{group}-3" for group in "bcdef"))
    again = work.events("begun", "a-2")[1]
    delay_s = again["at"] - begun["at"]
    others = [event["at"] for event in work.events("handled") if event["group"] != "a"]
    assert again["pid"] != begun["pid"]
    assert again["attempt"] == 2
    assert again["token"] > begun["token"]
    assert LEASE_S * 0.6 < delay_s < LEASE_S + 5.0
    assert max(others) < again["at"], "the other groups did not wait for that lease"
    assert work.verdict().is_clean(), work.verdict()

    consume.stop()
    assert "(signal SIGKILL)" in consume.stderr
    assert work.states() == {}


@pytest.mark.nightly
def test_the_message_that_kills_is_named_at_the_first_death_and_no_other(cli: Cli, work: Work, namespace: str) -> None:
    """However fast it does that; what the consumer holds beside it is innocent."""
    (cli.directory / "killer.py").write_text(
        "import os\n\ndef handle(message):\n    if message.id == 'c-0':\n        os.kill(os.getpid(), 9)\n"
    )
    for group in "abcdef":
        work.add(group, {})
    words = ("--app", "killer:handle", "--lease", 0.5, "--max-attempts", 2, "--until-empty")
    done = cli.run("consume", "jobs", *words, timeout=PATIENCE_S)
    assert done.returncode == 4, done.stderr
    named = [line.split("; ", 1)[1] for line in done.stderr.splitlines() if "consumer died" in line]
    inspect = f"inspect: sequencer explain jobs c --namespace {namespace}"
    assert set(named) == {f"last message started: group=c id=c-0; {inspect}"}
    assert len(named) >= 2, "the death that found it with others is not counted against it"


def test_a_paused_consumer_cannot_acknowledge_after_its_lease(cli: Cli, work: Work) -> None:
    work.add("a", {"gate": "gate"}, {}, {}, {})
    consume = cli.start("consume", "jobs", "--app", "shop:handle", "--lease", 0.6, "-n", 2)
    paused = work.wait_begun("a-0")
    os.kill(paused["pid"], signal.SIGSTOP)
    try:
        successor = work.wait_begun("a-0", times=2)
        cli.open("gate")
        work.wait_handled("a-0", "a-1", "a-2", "a-3")
        work.add("a", {"gate": "late"}, {})
        work.wait_begun("a-4")
    finally:
        os.kill(paused["pid"], signal.SIGCONT)
    consume.wait_for("lease lost")
    wait_until(lambda: len(work.events("handled", "a-0")) == 2, PATIENCE_S, "the paused handler ends too")
    assert work.head("a") == ("a-4", 1), "its acknowledgement changed nothing"
    cli.open("late")
    work.wait_handled("a-5")

    assert successor["pid"] != paused["pid"]
    assert successor["token"] > paused["token"]
    accepted, top = [], 0
    for record in sorted(work.handled(), key=lambda record: record.ended):
        if record.token >= top:  # as a resource does that is fenced by the token
            accepted.append(record)
            top = record.token
    assert work.verdict(accepted).is_clean(), work.verdict(accepted)
    assert len(work.handled()) == len(accepted) + 1
    consume.stop()
    assert "1 lost lease" in consume.stderr
