"""Cases of consumers that can't start, and of processes that don't end by themselves."""

from __future__ import annotations

import json
import signal
import sys
import sysconfig
from pathlib import Path

from .case import Case, case
from .scene import CONTROL_S, PATIENCE_S, Scene
from .settings import IMPORT

CASES: list[Case] = []
LIMIT = 5
"""Deaths in a row, before anything was begun, after which a place stands."""


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


@case(CASES, start_ends_the_service="the other consumer goes on")
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
    scene.expect(lambda: running.told("consumer can't start") and scene.is_handled("b-0"), "the other consumer goes on")
    scene.append("c", {})
    scene.expect(lambda: scene.is_handled("c-0"), "the other consumer goes on")
    away.rename(python)
    scene.wait(lambda: len(running.consumers()) == 2, "it is replaced when that is possible")
    scene.signal(signal.SIGTERM, [running.pid], "to the supervisor")
    scene.expect_end(running, 0)


@case(CASES, no_death_counts="starts consumers for ever")
def nothing_starts(scene: Scene) -> None:
    """Every consumer ends while it imports its application: that is given up, in each place after five."""
    running = scene.consume(n=2, changed=["hurried"], environment={IMPORT: "end"})
    most = 2 * LIMIT
    scene.wait(lambda: running.status is not None or len(scene.events("import")) > most, "deaths at the start")
    assert running.status is not None, "it starts consumers for ever"
    scene.faults["end of a consumer at its import"] += len(scene.events("import"))
    assert running.status == 1, f"exit status {running.status}, not 1"
    assert running.told("service gives up") == 1, "it does not say that it gives up"
    assert len(scene.events("import")) == most, "it gave up before each place had its attempts"


@case(CASES, lingers_for_ever="the consumer is killed", supervisor_lingers="the command ends")
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
