"""Cases of stopping: signals to everybody, ignored ones, process 1, with a grace; and a supervisor that is gone."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from shutil import which

from .case import Case, case
from .processes import children, command_line, has_signal, is_alive, kill
from .scene import CONTROL_S, LeftOut, Running, Scene

CASES: list[Case] = []
IGNORING = ("/bin/sh", "-c", "trap '' HUP INT; exec \"$@\"", "sh")
CONTAINER = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--")
GRACE_S = 0.5


def _need_proc() -> None:
    if not Path("/proc/self/status").exists():
        raise LeftOut("there is no /proc here")


def _need_container() -> None:
    if which(CONTAINER[0]) is None or subprocess.run([*CONTAINER, "true"], capture_output=True, check=False).returncode:
        raise LeftOut("nobody becomes process 1 here: it takes Linux, unshare and root")


@case(CASES, hears_what_was_ignored="is not ignored any more")
def nohup(scene: Scene) -> None:
    """What is ignored at the start stays ignored: SIGHUP by nohup, SIGINT by a shell for what it runs behind itself."""
    _need_proc()
    scene.append("a", {"gate": "never"})
    running = scene.consume(before=IGNORING)
    scene.wait_begun("a-0")
    pids = [running.pid, *running.consumers()]
    for number in (signal.SIGHUP, signal.SIGINT):
        for pid in pids:
            assert has_signal(pid, "SigIgn", number), f"{number.name} is not ignored any more"
        scene.signal(number, pids, "to all, ignored at the start")
    scene.beat(running.consumers())
    assert not scene.events("cut"), "the handler was interrupted"
    scene.signal(signal.SIGTERM, [running.pid], "to the supervisor, under nohup")
    stopping(scene, running)
    scene.signal(signal.SIGTERM, [running.pid], "to the supervisor again, under nohup")
    scene.expect_end(running, 0)
    assert scene.attempts("a") == 0, "the interruption counts as an attempt"


@case(CASES)
def process_one(scene: Scene) -> None:
    """As process 1 of a container: strangers are reaped, SIGTERM stops in stages."""
    _need_container()
    scene.append("a", {"stranger": True}, {"gate": "gate"})
    running = scene.consume(before=CONTAINER)
    scene.wait_begun("a-1")
    (supervisor,) = children(running.pid)

    def strangers() -> list[int]:
        return [pid for pid in children(supervisor) if command_line(pid).startswith("sleep 1000")]

    (stranger,) = scene.wait(strangers, "a stranger as a child of process 1")
    kill(stranger)
    scene.expect(lambda: not Path(f"/proc/{stranger}").exists(), "the stranger is reaped")
    scene.signal(signal.SIGTERM, [supervisor], "to process 1")
    stopping(scene, running)
    scene.beat([event["pid"] for event in scene.events("begun", "a-1")])
    assert not scene.events("cut"), "the handler was interrupted"
    scene.open("gate")
    scene.expect_end(running, 0)


def stopping(scene: Scene, running: Running) -> None:
    scene.wait(lambda: running.told("service stopping"), "the supervisor hears of the stop")


@case(CASES, second_signal_interrupts="was interrupted")
def control_group(scene: Scene) -> None:
    """systemd's KillMode=control-group: SIGTERM to everybody; and to the consumers once more, as supervisors did."""
    scene.append("a", {"gate": "gate"}, {})
    scene.append("b", {"gate": "gate"}, {})
    running = scene.consume(n=2)
    scene.wait_begun("a-0", "b-0")
    consumers = running.consumers()
    scene.signal(signal.SIGTERM, [running.pid, *consumers], "to all")
    stopping(scene, running)
    scene.beat(consumers)
    scene.signal(signal.SIGTERM, consumers, "to all consumers again")
    scene.beat(consumers)
    assert not scene.events("cut"), "a handler was interrupted"
    scene.open("gate")
    scene.expect_end(running, 0)
    assert scene.is_handled("a-0", "b-0"), "what ran was not finished"
    assert [event["id"] for event in scene.events("begun")].count("a-1") == 0, "something new was begun"
    assert [info.backlog for info in scene.queue.groups()] == [1, 1], "what ran was not acknowledged"


@case(CASES, no_grace="not within")
def grace(scene: Scene) -> None:
    """After the grace what runs is interrupted, and released uncounted."""
    scene.append("a", {"gate": "never"})
    running = scene.consume("--grace", str(GRACE_S))
    scene.wait_begun("a-0")
    scene.signal(signal.SIGTERM, [running.pid], "to the supervisor, with a grace")
    scene.expect_end(running, 0, control_s=CONTROL_S)
    assert scene.attempts("a") == 0, "the interruption counts as an attempt"


@case(CASES)
def stray_signal(scene: Scene) -> None:
    """SIGUSR2, by which the control thread interrupts a handler, comes from somebody else."""
    scene.append("a", {"gate": "gate"})
    running = scene.consume("--until-empty")
    scene.wait_begun("a-0")
    scene.signal(signal.SIGUSR2, running.consumers(), "to a consumer, from a stranger")
    scene.beat(running.consumers())
    assert not scene.events("cut"), "the handler was interrupted"
    scene.open("gate")
    scene.expect_end(running, 0)


@case(CASES, end_of_pipe_unheard="without a supervisor")
def orphans(scene: Scene) -> None:
    """A supervisor is killed: its consumers end what runs, acknowledge it, and are gone."""
    scene.append("a", {"gate": "gate"}, {"gate": "gate"})
    running = scene.consume()
    scene.wait_begun("a-0")
    consumers = running.consumers()
    scene.signal(signal.SIGKILL, [running.pid], "of the supervisor")
    running.process.wait()
    scene.pass_time(0.2)
    scene.beat(consumers)
    assert not scene.events("cut"), "the handler was interrupted"
    scene.open("gate")
    scene.expect(lambda: not any(map(is_alive, consumers)), "consumers without a supervisor end")
    assert [event["id"] for event in scene.events("handled")] == ["a-0"], "more was begun without a supervisor"
    info = scene.group("a")
    assert info is not None, "a-1 was handled without a supervisor"
    assert (info.head_id, info.state) == ("a-1", "due"), "what ran was not acknowledged and released"


@case(CASES)
def orphans_grace(scene: Scene) -> None:
    """A supervisor with a grace is killed: a handler that waits is interrupted, one that ignores that is ended."""
    scene.append("waits", {"gate": "never"})
    scene.append("stubborn", {"stubborn": True})
    running = scene.consume("--grace", str(GRACE_S), "--lease", "20", n=2, changed=["hurried"])
    scene.wait_begun("waits-0", "stubborn-0")
    consumers = running.consumers()
    scene.signal(signal.SIGKILL, [running.pid], "of the supervisor, with a grace")
    running.process.wait()
    scene.expect(lambda: not any(map(is_alive, consumers)), "consumers without a supervisor end")
    assert scene.attempts("waits") == 0, "the interruption counts as an attempt"
    assert scene.events("swallowed"), "the stubborn handler was not interrupted before it was ended"
