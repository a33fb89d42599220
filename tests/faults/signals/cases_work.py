"""Cases of work that goes wrong: consumers that die, hang or can't start, outputs that stand still, new code."""

from __future__ import annotations

import json
import os
import select
import signal
from typing import Any

from sequencer.client import Sequencer

from ..server.host import Host
from ..server.host import running as running_host
from .case import Case, case
from .processes import is_alive
from .scene import CONTROL_S, PATIENCE_S, QUEUE, Running, Scene
from .settings import IMPORT

CASES: list[Case] = []
BESIDE = """sleep 1000 & echo "$$ $!" >> begun; while [ ! -e gate ]; do sleep 0.05; done; kill $!"""
LIMIT = ("--handler-timeout", "0.5")
LEASE_S = 1.0
LEASE = ("--lease", str(LEASE_S))
LARGE = "x" * 300_000
"""More than a pipe holds."""


def _ends(scene: Scene, running: Running, status: int, kind: str) -> None:
    scene.wait(lambda: running.status is not None, f"the command ends ({kind})")
    assert running.status == status, f"exit status {running.status}, not {status} ({kind})"


@case(CASES)
def no_stderr(scene: Scene) -> None:
    """Standard error is full, or nobody reads it, or it is closed: a killed consumer is replaced, the work is done."""
    reader, closed = os.pipe()
    os.close(reader)
    with open("/dev/full", "wb") as full, os.fdopen(closed, "wb") as pipe:
        options: dict[str, dict[str, Any]] = {
            "full": {"stderr": full},
            "a pipe without a reader": {"stderr": pipe},
            "closed": {"before": ("/bin/sh", "-c", 'exec "$@" 2>&-', "sh")},
        }
        for number, (kind, how) in enumerate(options.items()):
            scene.append(f"{number}", {"die": "first"}, {})
            running = scene.consume(*LEASE, "--until-empty", changed=["hurried"], **how)
            _ends(scene, running, 0, kind)
            assert scene.is_handled(f"{number}-0", f"{number}-1"), f"the work was not done ({kind})"
            scene.faults[f"standard error is {kind}"] += 1


def _exec(scene: Scene, command: str, *words: str, n: int = 1, stderr: Any = None) -> Running:
    return scene.consume("--exec", command, *words, n=n, app=False, changed=["hurried"], stderr=stderr)


def _lines(scene: Scene, name: str) -> list[str]:
    path = scene.directory / name
    return path.read_text().splitlines() if path.exists() else []


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


@case(CASES, blames_nobody="was not counted")
def too_long_and_stubborn(scene: Scene) -> None:
    """A handler ignores that: its consumer is killed, and of all that was claimed with it its message alone pays."""
    scene.append("a", {"stubborn": True})
    others = [f"other{number}" for number in range(8)]
    for name in others:  # a claim takes half of the groups, and begins with one that has few messages
        scene.append(name, {}, {})
    running = scene.consume(*LIMIT, "--lease", "2", changed=["claims-many"])
    scene.wait_begun("a-0")
    scene.expect(lambda: running.told("consumer killed"), "the consumer is killed", control_s=12.0)
    scene.expect(lambda: len(scene.events("begun", "a-0")) == 2, "the message is retried", control_s=12.0)
    attempts = [event["attempt"] for event in scene.events("begun", "a-0")]
    assert attempts == [1, 2], f"the end of the lease was not counted: {attempts}"
    scene.expect(lambda: scene.is_handled(*(f"{name}-1" for name in others)), "the other groups go on")
    assert {event["attempt"] for event in scene.events("begun") if event["id"] != "a-0"} == {1}, "another was blamed"
    scene.faults["a handler that ignores the end of its time"] += 1


def _read(fd: int) -> bytes:
    """What there is to read now."""
    return os.read(fd, 2**20) if select.select([fd], [], [], 0)[0] else b""


def _printers(scene: Scene, *words: str, n: int) -> tuple[Running, int]:
    """Print mode into a pipe that nobody reads yet: the command, and the end to read."""
    reader, writer = os.pipe()
    scene.keep(os.fdopen(reader, "rb", closefd=True))
    with os.fdopen(writer, "wb") as output:
        running = scene.consume(*words, n=n, app=False, stdout=output)
    return running, reader


@case(CASES)
def pager(scene: Scene) -> None:
    """`| less`: nobody reads for several leases. Nobody is killed, and each line is printed once."""
    for number in range(4):
        scene.append(f"{number}", {"large": LARGE})
    running, reader = _printers(scene, *LEASE, "--until-empty", n=1)
    scene.consumers(running, 1)
    scene.pass_time(5 * LEASE_S)
    assert not running.told("consumer killed"), "a consumer was killed while nobody reads"
    printed = bytearray()

    def drain() -> bool:
        printed.extend(_read(reader))
        return running.status is not None

    scene.wait(drain, "all is printed once somebody reads")
    while piece := _read(reader):
        printed.extend(piece)
    assert running.status == 0, f"exit status {running.status}, not 0"
    ids = [json.loads(line)["id"] for line in bytes(printed).splitlines()]
    assert sorted(ids) == [f"{number}-0" for number in range(4)], f"not each line once: {ids}"
    scene.faults["an output that nobody reads"] += 1


@case(CASES)
def lingering_thread(scene: Scene) -> None:
    """The application leaves a thread that never ends: in a consumer, and in the supervisor, which imports it too."""
    scene.append("a", {})
    running = scene.consume("--grace", "0.5", "--json", changed=["hurried"], environment={IMPORT: "linger"})
    scene.wait(lambda: scene.is_handled("a-0"), "the work is done")
    scene.signal(signal.SIGTERM, [running.pid], "to the supervisor, threads linger")
    patience_s = CONTROL_S if scene.control == "lingers-for-ever" else PATIENCE_S
    scene.expect(lambda: running.told("consumer killed"), "the consumer is killed", control_s=patience_s)
    assert "lingers" in running.said, "the thread is not named"
    scene.expect_end(running, 0, control_s=CONTROL_S)
    assert json.loads(running.printed)["handled"] == 1, "what was handled is not counted"


@case(CASES)
def server_away(scene: Scene) -> None:
    """The server is killed and comes back, under four consumers."""
    host = Host(scene.directory / "server", "--appendonly", "yes", "--appendfsync", "always")
    with running_host(host), Sequencer(QUEUE, host.url, namespace=scene.namespace) as queue:
        running = scene.consume(n=4, environment={"SEQUENCER_REDIS": host.url})
        queue.append({}, ["a"], id="a-0")
        scene.wait(lambda: scene.is_handled("a-0"), "the consumers work")
        scene.consumers(running, 4)
        scene.pass_time(1.0)
        host.kill()
        scene.faults["SIGKILL of the server"] += 1
        scene.wait(lambda: running.told("server lost"), "it is said that the server is lost")
        scene.pass_time(2.0)
        host.start()
        scene.wait(lambda: running.told("server back"), "it is said that the server is back")
        queue.append({}, ["b"], id="b-0")
        scene.wait(lambda: scene.is_handled("b-0"), "the consumers go on")
        scene.signal(signal.SIGTERM, [running.pid], "to the supervisor")
        scene.expect_end(running, 0)
        told = [running.told(name) for name in ("server lost", "server back")]
        assert told == [1, 1], f"the loss and the return are told {told} times, not once each"
