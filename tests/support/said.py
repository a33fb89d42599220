"""What a command said, for the tests of the command line."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

from sequencer import Sequencer
from sequencer.net.link import Link

if TYPE_CHECKING:
    from ..process.conftest import Cli


def json_of(cli: Cli, *words: object, input: str = "") -> Any:
    """The JSON that a command prints; it must be fine and say nothing else."""
    done = _done(cli, (*words, "--json"), input)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


def refused(cli: Cli, *words: object, input: str = "") -> str:
    """What a command says that is wrong use."""
    done = _done(cli, words, input)
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    return done.stderr


def _done(cli: Cli, words: tuple[object, ...], input: str) -> subprocess.CompletedProcess[str]:
    # `consume` may start processes, and imports apps: modules of a name that another test has too.
    return cli.run(*words, input=input) if "consume" in words else cli.call(*words, input=input)


def dump(link: Link) -> dict[bytes, bytes]:
    """Every key with its content, to see that nothing was written."""
    return {key: link.command("DUMP", key) for key in link.command("KEYS", "*")}


def ids(queue: Sequencer, *group: str) -> list[str]:
    """The ids of a group's messages, in order."""
    return [message.id for message in queue.peek(group)]
