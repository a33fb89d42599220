"""Cases of stopping: signals to everybody, to those who still start, with a grace; and a supervisor that is gone."""

from __future__ import annotations

import os
import signal

from .case import Case, case
from .processes import is_alive
from .scene import CONTROL_S, Running, Scene
from .settings import IMPORT

CASES: list[Case] = []
GRACE_S = 0.5


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


@case(CASES, started_unblocked="died")
def starting(scene: Scene) -> None:
    """SIGTERM to everybody while a consumer's interpreter starts: it waits there, by a sitecustomize, for a gate."""
    wait = "while not os.path.exists('gate'): time.sleep(0.01)"
    (scene.directory / "sitecustomize.py").write_text(
        f"import os, sys, time\nif '.worker' in sys.orig_argv[-1]:\n    {wait}\n"
    )
    running = scene.consume(
        environment={"PYTHONPATH": os.pathsep.join([str(scene.directory), os.environ["PYTHONPATH"]])}
    )
    consumers = scene.consumers(running, 1)
    scene.signal(signal.SIGTERM, [running.pid, *consumers], "to all, a consumer starting")
    stopping(scene, running)
    scene.open("gate")
    scene.expect_end(running, 0)
    assert "1 dead consumer" not in running.said, "a consumer died of it"


@case(CASES, deaf_while_importing="died")
def importing(scene: Scene) -> None:
    """SIGTERM to everybody while a consumer imports its application."""
    scene.append("a", {})
    running = scene.consume(environment={IMPORT: "wait"})
    scene.wait(lambda: scene.events("import"), "the import begins")
    consumers = running.consumers()
    scene.signal(signal.SIGTERM, [running.pid, *consumers], "to all, a consumer importing")
    stopping(scene, running)
    scene.open("import")
    scene.expect_end(running, 0)
    assert "1 dead consumer" not in running.said, "a consumer died of it"
    assert not scene.events("begun"), "something was begun"


@case(CASES, no_grace="not within")
def grace(scene: Scene) -> None:
    """After the grace what runs is interrupted, and released uncounted."""
    scene.append("a", {"gate": "never"})
    running = scene.consume("--grace", str(GRACE_S))
    scene.wait_begun("a-0")
    scene.signal(signal.SIGTERM, [running.pid], "to the supervisor, with a grace")
    scene.expect_end(running, 0, control_s=CONTROL_S)
    assert scene.attempts("a") == 0, "the interruption counts as an attempt"


@case(CASES, no_look_at_the_stage="was interrupted")
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


@case(CASES, never_ends_alone="without a supervisor")
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
