"""Cases of signals that were ignored at the start, that come to process 1 of a container, or in the first second."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path
from shutil import which

from sequencer.client import Sequencer

from .case import Case, case
from .cases_stops import stopping
from .processes import children, command_line, has_signal, kill
from .scene import CONTROL_S, QUEUE, LeftOut, Running, Scene
from .settings import IMPORT

CASES: list[Case] = []
IGNORING = ("/bin/sh", "-c", "trap '' HUP INT; exec \"$@\"", "sh")
CONTAINER = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--")
MOMENTS_S = (0.0, 0.08, 0.16, 0.3)
"""Of an interrupt, from when our own code began."""
BEGAN = "import os; open(os.environ['BEGAN'], 'w').close()"
NEW_ENTRY = ("-P", "-c", f"{BEGAN}; import sys; from sequencer_start import main; sys.exit(main())")
OLD_ENTRY = ("-P", "-c", f"{BEGAN}; import sys; from sequencer.cli import main; sys.exit(main())")
LINES = 128
"""`append` sends so many at once."""


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


@case(CASES, orphans_stay="stranger is reaped")
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


@case(CASES, deaf_at_first="the command ends")
def process_one_starts(scene: Scene) -> None:
    """As process 1 of a container, SIGTERM while the application is imported: default actions don't apply there."""
    _need_container()
    running = scene.consume(before=CONTAINER, environment={IMPORT: "wait everywhere"})
    scene.wait(lambda: scene.events("import"), "the import begins")
    scene.signal(signal.SIGTERM, children(running.pid), "to process 1 at its start")
    scene.expect_end(running, 128 + signal.SIGTERM, control_s=CONTROL_S)


@case(CASES, old_entry="a traceback")
def early_interrupt(scene: Scene) -> None:
    """Ctrl-C in the first second, from when our own code began: no traceback, whatever the command."""
    _need_proc()
    for moment_s in MOMENTS_S:
        started = {name: _begin(scene, name, moment_s) for name in ("info", "append", "consume")}
        for name, running in started.items():
            _interrupt(scene, running, f"{name}-{moment_s}", moment_s)
        for name, running in started.items():
            _judge(scene, running, f"{name} after {moment_s} s")


def _begin(scene: Scene, name: str, moment_s: float) -> Running:
    program = OLD_ENTRY if scene.control else NEW_ENTRY
    pipe = subprocess.PIPE if name == "append" else subprocess.DEVNULL
    running = scene.start(name, QUEUE, program=program, stdin=pipe, environment={"BEGAN": f"{name}-{moment_s}"})
    if running.process.stdin:
        scene.keep(running.process.stdin)
    return running


def _interrupt(scene: Scene, running: Running, mark: str, moment_s: float) -> None:
    scene.wait((scene.directory / mark).exists, "our code begins")
    until = time.monotonic() + 1.0  # later the command may hear it again, and put things in order

    def is_begun() -> bool:
        return bool(scene.control) or not has_signal(running.pid, "SigCgt", signal.SIGINT) or time.monotonic() > until

    scene.wait(is_begun, "our code has the default action")
    scene.pass_time(moment_s)
    scene.signal(signal.SIGINT, [running.pid], "in the first second")


def _judge(scene: Scene, running: Running, what: str) -> None:
    scene.wait(lambda: running.status is not None, f"{what} ends")
    assert "Traceback" not in running.said, f"a traceback of {what}"


@case(CASES, append_says_nothing="does not say", append_lies="is not true")
def interrupted_append(scene: Scene) -> None:
    """Ctrl-C in `append`: it says how many are stored, and from which line to go on, and that is true."""
    _append(scene, "none", '{{"group": ["g"], "body": {}}}\n')
    _append(scene, "ids", '{{"group": ["g"], "body": 1, "id": "{}"}}\n')


def _append(scene: Scene, name: str, line: str) -> None:
    text = "".join(line.format(number) for number in range(LINES + 5))
    (scene.directory / name).write_text(text)
    with Sequencer(name, scene.url, namespace=scene.namespace) as queue:
        running = scene.start("append", name, stdin=subprocess.PIPE)
        assert running.process.stdin
        stream = scene.keep(running.process.stdin)
        stream.write(text.encode())
        stream.flush()
        scene.wait(lambda: queue.info().backlog == LINES, "the first lines are stored")
        scene.signal(signal.SIGINT, [running.pid], "to append")
        scene.expect_end(running, 130)
        stored = f"the lines up to {LINES:,} are stored"
        assert stored in running.said, f"it does not say what is stored: {running.said}"
        assert queue.info().backlog == LINES, "what it says of the number stored is not true"
        first = running.said.partition("--from-line ")[2].split()[:1] or ["1"]
        again = scene.start("append", name, name, "--from-line", *first)
        scene.wait(lambda: again.status is not None, "the rest is appended")
        assert queue.info().backlog == LINES + 5, f"what it says of the rest is not true: {running.said}"
