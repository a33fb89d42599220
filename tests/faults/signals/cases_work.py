"""Cases of work that goes wrong: consumers that die, hang or can't start, outputs that stand still, new code."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import sysconfig
from collections import Counter
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from sequencer.client import Sequencer

from ..server.host import Host
from ..server.host import running as running_host
from .case import Case, case
from .processes import descendants, is_alive
from .scene import CONTROL_S, PATIENCE_S, QUEUE, Running, Scene
from .settings import IMPORT

CASES: list[Case] = []
GROUPS = 6
WAITS = "echo $$ >> begun; while [ ! -e gate ]; do sleep 0.05; done; echo $$ >> done"
BESIDE = """sleep 1000 & echo "$$ $!" >> begun; while [ ! -e gate ]; do sleep 0.05; done; kill $!"""
LIMIT = ("--handler-timeout", "0.5")
LEASE_S = 1.0
LEASE = ("--lease", str(LEASE_S))
LARGE = "x" * 300_000
"""More than a pipe holds."""
LATE_S = 12.0
"""How long a control is given in which somebody is to be missed for a lease, with looks once a second."""
GOOD = "from tests.faults.signals.app import handle\n"
WRONG = "raise ImportError('half written')\n"
SHARE = 0.9
"""Of its rate alone a queue keeps at least this, while another crashes."""


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


@case(CASES)
def killers(scene: Scene) -> None:
    """Messages that kill their process each time: all are parked in the end, and the service does not give up."""
    for number in range(GROUPS):
        scene.append(f"{number}", {"die": "always"})
    running = scene.consume(*LEASE, "--max-attempts", "1", "--until-empty", changed=["hurried"])
    _ends(scene, running, 4, "killers")
    assert not running.told("service gave up"), "it gave up"
    states = [info.state for info in scene.queue.groups()]
    assert states == ["parked"] * GROUPS, f"the groups are {states}"
    scene.faults["SIGKILL of a consumer by its message"] += len(scene.events("begun"))


def _exec(scene: Scene, command: str, *words: str, n: int = 1, stderr: Any = None) -> Running:
    return scene.consume("--exec", command, *words, n=n, app=False, changed=["hurried"], stderr=stderr)


def _lines(scene: Scene, name: str) -> list[str]:
    path = scene.directory / name
    return path.read_text().splitlines() if path.exists() else []


@case(CASES)
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


@case(CASES)
def exec_daemon(scene: Scene) -> None:
    """A command leaves a daemon behind that holds our pipe: the group goes on."""
    scene.append("a", {}, {})
    running = _exec(scene, "sleep 1000 & echo $! >> done", "--until-empty")
    scene.expect(lambda: len(_lines(scene, "done")) == 2, "the group goes on", control_s=8.0)
    scene.expect_end(running, 0)
    scene.faults["a command that leaves a daemon behind"] += 2


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


def run_file(scene: Scene, **queues: str) -> Running:
    """Start `sequencer run` with a file of these queues; the words of each are split at `;`."""
    lines = ["check_every = '0.2s'"]
    for name, words in queues.items():
        lines += [f"[queues.{name}]", *words.split(";"), *([] if "app" in words else ["app = 'shop:handle'"])]
    (scene.directory / "sequencer.toml").write_text("\n".join(lines) + "\n")
    return scene.start("run", changed=["hurried"], environment={"SEQUENCER_HOME": f"{scene.directory}/home"})


def write_code(scene: Scene, text: str) -> None:
    """Of another length each time: bytecode is known by that, and by the second."""
    number = len(list(scene.directory.glob("code-*")))
    (scene.directory / f"code-{number}").touch()
    (scene.directory / "shop.py").write_text(f"{text}#{'x' * number}\n")


def pace_of(scene: Scene, group: str, count: int) -> float:
    """Seconds from one message of this group to the next, in the middle: a pause of the machine is no pace."""
    at = [event["at"] for event in scene.events("handled") if event["id"].startswith(f"{group}-")]
    assert len(at) == count
    return float(median(after - before for before, after in pairwise(at)))


@case(CASES)
def one_queue_crashes(scene: Scene) -> None:
    """At each message of one queue its consumer dies; another queue's consumers die as they start."""
    write_code(scene, GOOD)
    (scene.directory / "gone.py").write_text("import os\nos._exit(7)\n")
    running = run_file(
        scene, jobs="n = 1", crash="n = 2; lease = '0.5s'; max_attempts = 100", gone="app = 'gone:handle'"
    )
    many = [{"seconds": 0.05}] * 50
    scene.append("alone", *many)
    scene.expect(lambda: scene.is_handled("alone-49"), "the others go on")
    for group in "xyz":
        scene.append(group, *[{"die": "always"}] * 3, queue="crash")
    scene.append("beside", *many)
    scene.expect(lambda: scene.is_handled("beside-49"), "the others go on")
    scene.expect(lambda: "gone: pool down" in running.said, "the queue without consumers is told")
    assert running.said.count("gone: pool down") == 1, "it is told more than once"
    deaths = running.said.count("crash: consumer died")
    assert deaths > 2, f"only {deaths} consumers died"
    scene.faults["SIGKILL of a consumer by its message, under run"] += deaths
    share = pace_of(scene, "alone", 50) / pace_of(scene, "beside", 50)
    assert share >= SHARE, f"beside the queue that crashes the rate is {share:.2f} of that alone"
    scene.signal(signal.SIGTERM, [running.pid], "to a master")
    scene.expect_end(running, 0)


@case(CASES)
def new_code(scene: Scene) -> None:
    """SIGHUP to everybody under load: with code that does not load, then with code that does."""
    write_code(scene, GOOD)
    running = run_file(scene, jobs="n = 2")
    groups = [f"g{number}" for number in range(8)]
    for group in groups:
        scene.append(group, {"gate": "go"}, *[{"seconds": 0.01}] * 19)
    scene.wait(lambda: len({event["pid"] for event in scene.events("begun")}) == 2, "both consumers have the old code")
    first = scene.consumers(running, 2)
    scene.open("go")
    write_code(scene, WRONG)
    scene.signal(signal.SIGHUP, [running.pid, *first], "to all, with code that does not load")
    scene.expect(lambda: f"{QUEUE}: reload failed" in running.said, "the consumers of before go on")
    scene.append("later", {})
    scene.expect(lambda: scene.is_handled("later-0"), "the consumers of before go on")
    assert running.consumers() == first, "the consumers of before were replaced"
    write_code(scene, GOOD)
    scene.signal(signal.SIGHUP, [running.pid, *first], "to all, with new code")
    scene.expect(lambda: not {*first} & {*running.consumers()}, "the new ones take over")
    scene.append("last", {})
    scene.expect(lambda: scene.is_handled("last-0", *(f"{group}-19" for group in groups)), "all is handled")
    counts = Counter(event["id"] for event in scene.events("begun"))
    assert len(counts) == 162, f"{162 - len(counts)} messages were lost"
    assert max(counts.values()) == 1, f"begun more than once: {[one for one, count in counts.items() if count > 1]}"
    scene.signal(signal.SIGTERM, [running.pid], "to a master")
    scene.expect_end(running, 0)


def _environment(worker: Path) -> Path:
    """A virtual environment of our own that has all that this one has; its interpreter."""
    python = worker / "bin" / "python"
    library = worker / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    for folder in (python.parent, library):
        folder.mkdir(parents=True)
    real = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    (worker / "pyvenv.cfg").write_text(f"home = {real.parent}\ninclude-system-site-packages = false\n")
    (library / "site-packages").symlink_to(sysconfig.get_path("purelib"))
    python.symlink_to(real)
    return python


@case(CASES)
def no_forks(scene: Scene) -> None:
    """The interpreter is gone when a consumer dies, as while a deploy exchanges the virtual environment."""
    python = _environment(scene.directory / "venv")
    running = scene.consume("--lease", "1", n=2, python=str(python), changed=["hurried"])
    scene.append("a", {})
    scene.wait(lambda: scene.is_handled("a-0"), "the consumers work")
    first = scene.consumers(running, 2)
    away = python.rename(python.with_name("away"))
    scene.signal(signal.SIGKILL, first[:1], "of a consumer that can't be replaced")
    scene.wait(lambda: len(running.consumers()) < 2, "the consumer is gone")
    scene.append("b", {})
    scene.expect(lambda: running.told("consumer not started") and scene.is_handled("b-0"), "the other consumer goes on")
    scene.append("c", {})
    scene.expect(lambda: scene.is_handled("c-0"), "the other consumer goes on")
    away.rename(python)
    scene.wait(lambda: len(running.consumers()) == 2, "it is replaced when that is possible")
    scene.signal(signal.SIGTERM, [running.pid], "to the supervisor")
    scene.expect_end(running, 0)


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
