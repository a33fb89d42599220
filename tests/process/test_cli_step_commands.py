"""`sequencer consume --step`: a command for each step of a message; and an app that declares steps."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from sequencer import Sequencer

if TYPE_CHECKING:
    from .conftest import Cli, Work


def test_each_step_is_a_command_and_gets_its_key(cli: Cli, work: Work) -> None:
    work.add("a", {}, {})
    note = 'printf "%s\\n" "$SEQUENCER_STEP_KEY" >> keys'
    fails = f"{note}; mkdir made 2>/dev/null"  # the first time only
    words = ("--step", f"charge={note}", "--step", f"label={fails}", "--step", f"mail={note}")
    done = cli.run("consume", "jobs", *words, "--backoff", 0.01, "--until-empty", "--max-attempts", 2)
    assert done.returncode == 4, done.stderr
    keys = [line.rsplit("/", 3) for line in (cli.directory / "keys").read_text().splitlines()]
    assert [(id, step) for _, id, _, step in keys] == [
        *(("a-0", step) for step in ("charge", "label", "mail")),
        *(("a-1", step) for step in ("charge", "label", "mail", "label")),
    ]
    assert keys[4] == keys[6], "the same key in each attempt"
    assert "step failed: group=a id=a-1 step=label attempt=2 of 2 error=CommandFailed" in done.stderr


def test_a_once_step_whose_command_fails_is_a_question(cli: Cli, work: Work, seq: Sequencer) -> None:
    work.add("a", {})
    done = cli.run("consume", "jobs", "--step", "charge=exit 3", "--once", "charge", "--until-empty")
    assert done.returncode == 4
    assert re.search("if it did: sequencer resume jobs a --id [^ ]+ --done charge", done.stderr)
    (parked,) = seq.parked()
    assert parked.failure is not None
    assert parked.failure.type == "StepUnknown"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--step", "charge"), "'charge' must be NAME=COMMAND"),
        (("--step", "a=true", "--exec", "true"), "give --exec or --step, not both"),
        (("--step", "a=true", "--app", "shop:handle"), "give --app or --step, not both"),
        (("--once", "a"), "it names steps of --step"),
        (("--step", "a=true", "--once", "b"), "there is no step b that could run once; there are a"),
        (("--step", "a=true", "--step", "a=true"), "there are two steps a"),
        (("--step", "a=no-such-command"), "there is no command 'no-such-command'"),
    ],
)
def test_what_is_refused_is_said(cli: Cli, words: tuple[str, ...], said: str) -> None:
    done = cli.run("consume", "jobs", *words, "--until-empty")
    assert done.returncode == 2
    assert said in " ".join(done.stderr.replace("│", " ").split())


APP = """
from sequencer import Sequencer

seq = Sequencer("jobs", namespace={namespace!r})


@seq.step(order=2)
def mail(message, step):
    with open("ran", "a") as ran:
        print(message.id, step.name, step.result, file=ran)


@seq.step(order=1)
def charge(message):
    with open("ran", "a") as ran:
        print(message.id, "charge", file=ran)
"""


def test_an_app_with_steps_is_run_by_consumer_processes(cli: Cli, work: Work, seq: Sequencer) -> None:
    (cli.directory / "stepped.py").write_text(APP.replace("{namespace!r}", repr(seq.options.namespace)))
    work.add("a", {}, {})
    done = cli.run("consume", "jobs", "--app", "stepped:seq", "-n", 2, "--until-empty")
    assert done.returncode == 0, done.stderr
    assert (cli.directory / "ran").read_text().splitlines() == [
        "a-0 charge",
        "a-0 mail None",
        "a-1 charge",
        "a-1 mail None",
    ]
