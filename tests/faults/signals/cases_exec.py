"""Cases of --exec: a signal for everybody, a command whose consumer dies, or that says what nobody hears."""

from __future__ import annotations

import signal
from typing import Any

from .case import Case, case
from .processes import descendants, is_alive
from .scene import Running, Scene

CASES: list[Case] = []
LEASE = ("--lease", "1")
WAITS = "echo $$ >> begun; while [ ! -e gate ]; do sleep 0.05; done; echo $$ >> done"
BESIDE = """sleep 1000 & echo "$$ $!" >> begun; while [ ! -e gate ]; do sleep 0.05; done; kill $!"""


def _exec(scene: Scene, command: str, *words: str, n: int = 1, stderr: Any = None) -> Running:
    return scene.consume("--exec", command, *words, n=n, app=False, changed=["hurried"], stderr=stderr)


def _lines(scene: Scene, name: str) -> list[str]:
    path = scene.directory / name
    return path.read_text().splitlines() if path.exists() else []


@case(CASES, everybodys_signal_counts="counts as an attempt")
def exec_control_group(scene: Scene) -> None:
    """SIGTERM to supervisor, consumers and commands: the messages are released, uncounted."""
    for group in ("a", "b"):
        scene.append(group, {})
    running = _exec(scene, WAITS, n=2)
    scene.wait(lambda: len(_lines(scene, "begun")) == 2, "two commands run")
    scene.signal(signal.SIGTERM, [running.pid, *descendants(running.pid)], "to all, with commands")
    scene.expect_end(running, 0)
    assert not _lines(scene, "done"), "a command ended well"
    assert [scene.attempts(group) for group in ("a", "b")] == [0, 0], "the stop counts as an attempt"


@case(CASES, command_outlives="runs beside")
def exec_killed(scene: Scene) -> None:
    """A consumer is killed: its command, and what that started, are gone when the successor's begins."""
    scene.append("a", {})
    running = _exec(scene, BESIDE, *LEASE, "--until-empty")
    pids = [int(word) for word in scene.wait(lambda: _lines(scene, "begun"), "the command runs")[0].split()]
    scene.signal(signal.SIGKILL, running.consumers(), "of a consumer with a command")
    scene.wait(lambda: len(_lines(scene, "begun")) == 2, "the successor's command runs")
    assert not any(map(is_alive, pids)), "the command runs beside its successor"
    scene.open("gate")
    scene.expect_end(running, 0)


@case(CASES, saying_fails="not 0")
def exec_unheard(scene: Scene) -> None:
    """A command succeeds though what it says can't be passed on."""
    scene.append("a", {})
    with open("/dev/full", "wb") as full:
        running = _exec(scene, "echo hello >&2; echo $$ >> done", "--until-empty", "--max-attempts", "1", stderr=full)
        scene.expect_end(running, 0)
    assert len(_lines(scene, "done")) == 1, "it ran more than once"
    scene.faults["standard error is full"] += 1


@case(CASES, waits_for_the_pipe="the group goes on")
def exec_daemon(scene: Scene) -> None:
    """A command leaves a daemon behind that holds our pipe: the group goes on."""
    scene.append("a", {}, {})
    running = _exec(scene, "sleep 1000 & echo $! >> done", "--until-empty")
    scene.expect(lambda: len(_lines(scene, "done")) == 2, "the group goes on", control_s=8.0)
    scene.expect_end(running, 0)
    scene.faults["a command that leaves a daemon behind"] += 2


@case(CASES, any_status_counts="not 2")
def exec_not_found(scene: Scene) -> None:
    """The first command of a consumer can't be run: exit 2, and the message is released uncounted."""
    for status, command in ((127, "true && no-such-command"), (126, "true && ./app.py")):
        (scene.directory / "app.py").touch(mode=0o644)
        group = str(status)
        scene.append(group, {})
        running = _exec(scene, command, "--until-empty", "--max-attempts", "1")
        scene.expect_end(running, 2)
        assert scene.attempts(group) == 0, "it counts as an attempt"
        scene.queue.cancel([group], f"{group}-0")
        scene.faults[f"a command that ends with {status}"] += 1


@case(CASES, any_word_is_a_command="not refused")
def not_a_command(scene: Scene) -> None:
    """The first word is no command: refused at the start, before any consumer."""
    running = _exec(scene, "no-such-command --flag")
    scene.wait(lambda: running.status is not None or running.consumers(), "the start")
    assert running.status == 2, "it is not refused at the start"
    assert "no-such-command" in running.said, "it does not say what is missing"
    scene.faults["a command that does not exist"] += 1
