"""`sequencer consume` of an app that declares steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sequencer import Sequencer

if TYPE_CHECKING:
    from .conftest import Cli, Work


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
