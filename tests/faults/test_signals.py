"""The processes around the core: stopped, crashed and starved the way operators and machines do it.

Each case runs as it is, and then with each of its controls, which must be found by what the case says of them.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from shutil import which
from typing import Any, TypeVar

import pytest

from sequencer import EmbeddedServer, Sequencer
from sequencer.testing import wait_until

from ..process.conftest import MARK, Cli, Running, Work
from ..support.processes import children, command_line, has_signal, is_alive, kill
from ..support.run_scene import PATIENCE_S, SHOP
from .signals import changes
from .strays import end_strays

pytestmark = pytest.mark.nightly

T = TypeVar("T")
ROUNDS = range(20 if os.environ.get("SCALE") == "nightly" else 1)
ATTEMPTS = 3
"""How often a case is run with a control, until that shows: a few controls depend on what comes first."""
CONTROL_S = 3.0
"""How long to wait for what must come, with a control: from that it is not to come at all."""


class Scene(Cli):
    """The real command, perhaps with a control, and messages for the handlers of `shop.py`; `close` ends all of it."""

    def __init__(self, directory: Path, environment: dict[str, str], seq: Sequencer, control: str) -> None:
        super().__init__(directory, environment)
        self.seq, self.queue, self.control = seq, seq.options.queue, control
        self.work = Work(seq, directory / f"{self.queue}.ndjson")

    def close(self) -> None:
        for running in self._started:
            running.kill()
        end_strays(f"{MARK}={self.environment[MARK]}")

    def consume(
        self,
        *words: str,
        n: int = 1,
        app: str = "shop:handle",
        changed: Sequence[str] = (),
        before: Sequence[str] = (),
        stdout: Any = None,
        stderr: Any = None,
        **environment: str,
    ) -> Running:
        """`before` stands before the command, as `nohup` does; `changed`: what else of changes.py there is to be."""
        names = [*changed, *([self.control] if self.control else [])]
        program = [sys.executable, "-P", "-m", "tests.faults.signals.command"] if names else [self.program]
        given = ["consume", self.queue, "-n", str(n), *(["--app", app] if app else []), *words]
        own = {changes.VARIABLE: ",".join(names), **environment}
        return self._start([*before, *program, *given], own, stdout=stdout, stderr=stderr)

    def told(self, running: Running, name: str) -> int:
        """How many lines told of this event."""
        return running.stderr.count(f"{self.queue}: {name}")

    def expect(self, predicate: Callable[[], T], what: str, *, control_s: float = CONTROL_S) -> T:
        """Wait for what must come; with a control it takes `control_s`."""
        return wait_until(predicate, control_s if self.control else PATIENCE_S, what)

    def expect_end(self, running: Running, status: int, *, control_s: float = PATIENCE_S) -> None:
        """It must end, and with this exit status; `control_s` where a control does not end at all."""
        self.expect(lambda: running.process.poll() is not None, "the command ends", control_s=control_s)
        said = " / ".join(running.stderr.splitlines()[-3:])
        assert running.process.returncode == status, f"exit status {running.process.returncode}, not {status}: {said}"

    def wait_begun(self, *message_ids: str) -> None:
        for one in message_ids:
            self.work.wait_begun(one)

    def is_handled(self, *message_ids: str) -> bool:
        return all(self.work.events("handled", one) for one in message_ids)

    def beat(self, pids: Sequence[int]) -> None:
        """Wait until all of these that wait at a gate have looked there again, so that their signals took effect."""

        def beats(pid: int) -> int:
            path = self.directory / f"beats-{pid}"
            return path.stat().st_size if path.exists() else 0

        before = {pid: beats(pid) for pid in pids}
        gone = {event["pid"] for event in self.work.events("cut")}

        def have_looked() -> bool:
            cut = gone | {event["pid"] for event in self.work.events("cut")}
            return all(pid in cut or beats(pid) > before[pid] + 1 for pid in pids)

        wait_until(have_looked, PATIENCE_S, "handlers that go on")

    def is_untried(self, group: str) -> bool:
        """Whether the group is free, and its head, which was interrupted, counts as not begun."""
        return (self.work.states().get(group), self.work.head(group)) == ("due", (f"{group}-0", 1))


def pass_time(seconds: float) -> None:
    """For a case in which nothing must happen for so long."""
    until = time.monotonic() + seconds
    wait_until(lambda: time.monotonic() >= until, seconds + PATIENCE_S)


@pytest.fixture
def scenes(
    server: EmbeddedServer, namespace: str, make: Callable[..., Sequencer], tmp_path: Path
) -> Iterator[Callable[[str], Scene]]:
    """Makes scenes, each with a queue of its own."""
    made: list[Scene] = []
    own = {"SEQUENCER_REDIS": server.url, "SEQUENCER_NAMESPACE": namespace, MARK: namespace}

    def scene(control: str = "") -> Scene:
        directory = tmp_path / str(len(made))
        directory.mkdir()
        (directory / "shop.py").write_text(SHOP)
        made.append(Scene(directory, {**os.environ, **own}, make(f"jobs{len(made)}", backoff=0.01), control))
        return made[-1]

    yield scene
    for one in made:
        one.close()


Play = Callable[[Scene], None]
USED: set[str] = set()
"""Controls that belong to a case."""


def case(**controls: str) -> Callable[[Play], Any]:
    """A test of this case. `controls`: each in changes.py, and the words by which it must be found."""
    USED.update(controls)

    def decorate(play: Play) -> Any:
        @pytest.mark.parametrize("control", ["", *controls])
        @pytest.mark.parametrize("number", ROUNDS)
        def test(scenes: Callable[[str], Scene], control: str, number: int) -> None:
            if control:
                is_found(play, scenes, control, controls[control])
            else:
                play(scenes(""))

        test.__doc__ = play.__doc__
        return test

    return decorate


def is_found(play: Play, scenes: Callable[[str], Scene], control: str, words: str) -> None:
    problem = ""
    for _ in range(ATTEMPTS):
        try:
            play(scenes(control))
        except AssertionError as error:
            problem = f"{error}"
        if words in problem:
            return
    pytest.fail(f"not found by {words!r} but by {problem!r}" if problem else "it passes")


def test_every_control_belongs_to_a_case() -> None:
    assert {control.__name__ for control in changes.CONTROLS} == USED


def test_a_control_that_passes_or_is_found_by_something_else_is_a_problem(scenes: Callable[[str], Scene]) -> None:
    def play(scene: Scene) -> None:
        wait_until(lambda: False, 0.01, "never")

    with pytest.raises(pytest.fail.Exception):
        is_found(lambda scene: None, scenes, "no_grace", "anything")
    with pytest.raises(pytest.fail.Exception):
        is_found(play, scenes, "no_grace", "interrupted")
    is_found(play, scenes, "no_grace", "never")


# -- stopping ---------------------------------------------------------------------------------------------------------

IGNORING = ("/bin/sh", "-c", "trap '' HUP INT; exec \"$@\"", "sh")
CONTAINER = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--")
GRACE_S = 0.5


def signal_all(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        kill(pid, number)


def wait_stopping(scene: Scene, running: Running) -> None:
    wait_until(lambda: scene.told(running, "service stopping"), PATIENCE_S, "the supervisor hears of the stop")


@case(hears_what_was_ignored="is not ignored any more")
def test_nohup(scene: Scene) -> None:
    """What is ignored at the start stays ignored: SIGHUP by nohup, SIGINT by a shell for what it runs behind itself."""
    if not Path("/proc/self/status").exists():
        pytest.skip("there is no /proc here")
    scene.work.add("a", {"gate": "never"})
    running = scene.consume(before=IGNORING)
    scene.wait_begun("a-0")
    pids = [running.pid, *running.consumers()]
    for number in (signal.SIGHUP, signal.SIGINT):
        for pid in pids:
            assert has_signal(pid, "SigIgn", number), f"{number.name} is not ignored any more"
        signal_all(pids, number)
    scene.beat(running.consumers())
    assert not scene.work.events("cut"), "the handler was interrupted"
    running.signal()
    wait_stopping(scene, running)
    running.signal()
    scene.expect_end(running, 0)
    assert scene.is_untried("a"), "the interruption counts as an attempt"


STRANGE = """
import subprocess
import shop

def handle(message):
    if "stranger" in message.body:  # what outlives the shell that started it belongs to process 1
        subprocess.run(["/bin/sh", "-c", "exec >/dev/null 2>&1; sleep 1000 &"], check=True)
    shop.handle(message)
"""


@case()
def test_process_one(scene: Scene) -> None:
    """As process 1 of a container: strangers are reaped, SIGTERM stops in stages."""
    if which(CONTAINER[0]) is None or subprocess.run([*CONTAINER, "true"], capture_output=True, check=False).returncode:
        pytest.skip("nobody becomes process 1 here: it takes Linux, unshare and root")
    (scene.directory / "strange.py").write_text(STRANGE)
    scene.work.add("a", {"stranger": True}, {"gate": "gate"})
    running = scene.consume(before=CONTAINER, app="strange:handle")
    scene.wait_begun("a-1")
    (supervisor,) = children(running.pid)

    def strangers() -> list[int]:
        return [pid for pid in children(supervisor) if command_line(pid).startswith("sleep 1000")]

    (stranger,) = wait_until(strangers, PATIENCE_S, "a stranger as a child of process 1")
    kill(stranger)
    scene.expect(lambda: not Path(f"/proc/{stranger}").exists(), "the stranger is reaped")
    kill(supervisor, signal.SIGTERM)
    wait_stopping(scene, running)
    scene.beat([event["pid"] for event in scene.work.events("begun", "a-1")])
    assert not scene.work.events("cut"), "the handler was interrupted"
    scene.open("gate")
    scene.expect_end(running, 0)


@case(second_signal_interrupts="was interrupted")
def test_control_group(scene: Scene) -> None:
    """systemd's KillMode=control-group: SIGTERM to everybody; and to the consumers once more, as supervisors did."""
    scene.work.add("a", {"gate": "gate"}, {})
    scene.work.add("b", {"gate": "gate"}, {})
    running = scene.consume(n=2)
    scene.wait_begun("a-0", "b-0")
    consumers = running.consumers()
    signal_all([running.pid, *consumers], signal.SIGTERM)
    wait_stopping(scene, running)
    scene.beat(consumers)
    signal_all(consumers, signal.SIGTERM)
    scene.beat(consumers)
    assert not scene.work.events("cut"), "a handler was interrupted"
    scene.open("gate")
    scene.expect_end(running, 0)
    assert scene.is_handled("a-0", "b-0"), "what ran was not finished"
    assert not scene.work.events("begun", "a-1"), "something new was begun"
    assert [info.backlog for info in scene.seq.groups()] == [1, 1], "what ran was not acknowledged"


@case(no_grace="the command ends")
def test_grace(scene: Scene) -> None:
    """After the grace what runs is interrupted, and released uncounted."""
    scene.work.add("a", {"gate": "never"})
    running = scene.consume("--grace", str(GRACE_S))
    scene.wait_begun("a-0")
    running.signal()
    scene.expect_end(running, 0, control_s=CONTROL_S)
    assert scene.is_untried("a"), "the interruption counts as an attempt"


@case()
def test_stray_signal(scene: Scene) -> None:
    """SIGUSR2, by which the control thread interrupts a handler, comes from somebody else."""
    scene.work.add("a", {"gate": "gate"})
    running = scene.consume("--until-empty")
    scene.wait_begun("a-0")
    signal_all(running.consumers(), signal.SIGUSR2)
    scene.beat(running.consumers())
    assert not scene.work.events("cut"), "the handler was interrupted"
    scene.open("gate")
    scene.expect_end(running, 0)


@case(end_of_pipe_unheard="without a supervisor")
def test_orphans(scene: Scene) -> None:
    """A supervisor is killed: an idle consumer is gone, and one that is busy ends what runs, and acknowledges it."""
    scene.work.add("a", {"gate": "gate"}, {"gate": "gate"})
    running = scene.consume(n=2)
    scene.wait_begun("a-0")
    wait_until(lambda: len(running.consumers()) == 2, PATIENCE_S, "two consumers")
    consumers = running.consumers()
    (busy,) = [event["pid"] for event in scene.work.events("begun")]
    running.kill()
    pass_time(0.2)
    scene.beat([busy])
    scene.expect(lambda: [*filter(is_alive, consumers)] == [busy], "an idle consumer without a supervisor ends")
    assert not scene.work.events("cut"), "the handler was interrupted"
    scene.open("gate")
    scene.expect(lambda: not any(map(is_alive, consumers)), "consumers without a supervisor end")
    assert [event["id"] for event in scene.work.events("handled")] == ["a-0"], "more was begun without a supervisor"
    assert scene.work.head("a") == ("a-1", 1), "a-1 was begun without a supervisor, or a-0 not acknowledged"
    assert scene.work.states() == {"a": "due"}, "what ran was not released"


@case()
def test_orphans_grace(scene: Scene) -> None:
    """A supervisor with a grace is killed: a handler that waits is interrupted, one that ignores that is ended."""
    scene.work.add("waits", {"gate": "never"})
    scene.work.add("stubborn", {"stubborn": True})
    running = scene.consume("--grace", str(GRACE_S), "--lease", "20", n=2, changed=["hurried"])
    scene.wait_begun("waits-0", "stubborn-0")
    consumers = running.consumers()
    running.kill()
    scene.expect(lambda: not any(map(is_alive, consumers)), "consumers without a supervisor end")
    assert scene.is_untried("waits"), "the interruption counts as an attempt"
    assert scene.work.events("swallowed"), "the stubborn handler was not interrupted before it was ended"


# -- work that goes wrong ---------------------------------------------------------------------------------------------

BESIDE = """sleep 1000 & echo "$$ $!" >> begun; while [ ! -e gate ]; do sleep 0.05; done; kill $!"""
LEASE_S = 1.0
LEASE = ("--lease", str(LEASE_S))
LARGE = "x" * 300_000
"""More than a pipe holds."""


@case()
def test_no_stderr(scene: Scene) -> None:
    """Standard error is full, or nobody reads it, or it is closed: a killed consumer is replaced, the work is done."""
    reader, closed = os.pipe()
    os.close(reader)
    with open("/dev/full", "wb") as full, os.fdopen(closed, "wb") as pipe:
        options: dict[str, dict[str, Any]] = {
            "full": {"stderr": full},
            "a pipe without a reader": {"stderr": pipe},
            "closed": {"before": ("/bin/sh", "-c", 'exec "$@" 2>&-', "sh")},
        }
        for kind, how in options.items():
            scene.work.add(kind, {"killed": True}, {})
            running = scene.consume(*LEASE, "--until-empty", changed=["hurried"], **how)
            assert running.ended() == 0, kind
            assert scene.is_handled(f"{kind}-0", f"{kind}-1"), f"the work was not done ({kind})"


@case(command_outlives="runs beside")
def test_exec_killed(scene: Scene) -> None:
    """A consumer is killed: its command, and what that started, are gone when the successor's begins."""

    def begun() -> list[str]:
        path = scene.directory / "begun"
        return path.read_text().splitlines() if path.exists() else []

    scene.work.add("a", {})
    running = scene.consume("--exec", BESIDE, *LEASE, "--until-empty", app="", changed=["hurried"])
    pids = [int(word) for word in wait_until(begun, PATIENCE_S, "the command runs")[0].split()]
    signal_all(running.consumers(), signal.SIGKILL)
    wait_until(lambda: len(begun()) == 2, PATIENCE_S, "the successor's command runs")
    assert not any(map(is_alive, pids)), "the command runs beside its successor"
    scene.open("gate")
    scene.expect_end(running, 0)


@case()
def test_pager(scene: Scene) -> None:
    """`| less`: nobody reads for several leases. Nobody is killed, and each line is printed once."""
    for number in range(4):
        scene.work.add(f"{number}", {"large": LARGE})
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb"):
        with os.fdopen(writer, "wb") as output:
            running = scene.consume(*LEASE, "--until-empty", app="", stdout=output)
        wait_until(running.consumers, PATIENCE_S, "a consumer")
        pass_time(5 * LEASE_S)
        assert not scene.told(running, "consumer killed"), "a consumer was killed while nobody reads"
        printed = bytearray()

        def drain() -> bool:
            is_over = running.process.poll() is not None
            while select.select([reader], [], [], 0)[0] and (piece := os.read(reader, 2**20)):
                printed.extend(piece)
            return is_over

        wait_until(drain, PATIENCE_S, "all is printed once somebody reads")
    assert running.process.returncode == 0
    ids = [json.loads(line)["id"] for line in bytes(printed).splitlines()]
    assert sorted(ids) == [f"{number}-0" for number in range(4)], f"not each line once: {ids}"


@case()
def test_lingering_thread(scene: Scene) -> None:
    """The application leaves a thread that never ends: in a consumer, and in the supervisor, which imports it too."""
    (scene.directory / "lingers.py").write_text(
        "import threading\nfrom shop import handle\n"
        "threading.Thread(target=threading.Event().wait, name='lingers').start()\n"
    )
    scene.work.add("a", {})
    running = scene.consume("--grace", "0.5", "--json", app="lingers:handle", changed=["hurried"])
    scene.work.wait_handled("a-0")
    running.signal()
    scene.expect(lambda: scene.told(running, "consumer killed"), "the consumer is killed")
    assert "lingers" in running.stderr, "the thread is not named"
    scene.expect_end(running, 0)
    assert json.loads(running.stdout)["handled"] == 1, "what was handled is not counted"
