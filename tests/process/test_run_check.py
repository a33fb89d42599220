"""What `sequencer run --check` says of rights and of steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from sequencer.net.link import Link

from ..support.run_scene import RunScene

if TYPE_CHECKING:
    from .conftest import Cli


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
    assert problems == ["error: gifts: to consume, the user lacks +wait; grant it with ACL SETUSER"]
    link.command("ACL", "SETUSER", user, "+wait")
    assert cli.run("run", "--check").returncode == 0
