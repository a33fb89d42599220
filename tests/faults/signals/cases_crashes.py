"""Cases of consumers that die or multiply, and of a supervisor that can't say so."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

from .case import Case, case
from .processes import is_alive
from .scene import Running, Scene

CASES: list[Case] = []
GROUPS = 7
LEASE = ("--lease", "1")


def _ends(scene: Scene, running: Running, status: int, kind: str) -> None:
    scene.wait(lambda: running.status is not None, f"the command ends ({kind})")
    assert running.status == status, f"exit status {running.status}, not {status} ({kind})"


@case(CASES, telling_raises="not 0")
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


@case(CASES, every_death_counts="not 4")
def killers(scene: Scene) -> None:
    """Messages that kill their process each time: all are parked in the end, and the service does not give up."""
    for number in range(GROUPS):
        scene.append(f"{number}", {"die": "always"})
    running = scene.consume(*LEASE, "--max-attempts", "1", "--until-empty", changed=["hurried"])
    _ends(scene, running, 4, "killers")
    assert not running.told("service gives up"), "it gave up"
    states = [info.state for info in scene.queue.groups()]
    assert states == ["parked"] * GROUPS, f"the groups are {states}"
    scene.faults["SIGKILL of a consumer by its message"] += len(scene.events("begun"))


@case(CASES, dead_do_not_count="were handled")
def counts_of_the_dead(scene: Scene) -> None:
    """The summary counts what a killed consumer had handled and reported."""
    scene.append("quick", {}, {}, {})
    running = scene.consume(*LEASE, "--json", changed=["hurried"])
    scene.wait(lambda: scene.is_handled("quick-2"), "quick messages are handled")
    scene.append("slow", {"gate": "gate"}, {})
    scene.wait_begun("slow-0")
    scene.pass_time(1.0)  # ten times as long as between two reports
    scene.signal(signal.SIGKILL, running.consumers(), "of a consumer")
    scene.open("gate")
    scene.wait(lambda: scene.is_handled("slow-1"), "the successor's work is done")
    scene.signal(signal.SIGTERM, [running.pid], "to the supervisor")
    _ends(scene, running, 0, "after a kill")
    totals = json.loads(running.printed)
    assert totals["handled"] == 5, f"it says {totals['handled']} messages, 5 were handled"
    assert totals["died"] == 1, f"it says that {totals['died']} consumers died, not 1"


@case(CASES, copies_stay="a copy")
def forks(scene: Scene) -> None:
    """A handler forks, and its child comes back: by return, by sys.exit, by an exception. It is no second consumer."""
    scene.append("a", *({"fork": how} for how in ("return", "exit", "raise")), {}, {})
    running = scene.consume("--until-empty", changed=["claims-many"])
    scene.wait(lambda: scene.events("begun"), "the first handler")
    (consumer,) = {event["pid"] for event in scene.events("begun", "a-0")}

    def has_copies() -> bool:
        return any(event["pid"] != consumer for event in scene.events("begun") + scene.events("handled"))

    def is_over() -> bool:
        return running.status is not None and not any(is_alive(event["pid"]) for event in scene.events("copy"))

    scene.wait(lambda: has_copies() or is_over(), "the work is done")
    assert not has_copies(), "a copy of the consumer handles messages"
    assert running.status == 0, f"exit status {running.status}, not 0"
    scene.faults["fork in a handler"] += len(scene.events("copy"))
    handled = [event["id"] for event in scene.events("handled")]
    assert handled == [f"a-{number}" for number in range(5)], f"not each message once: {handled}"
