"""Cases of a handler that takes too long: it is interrupted or killed, and the right message pays."""

from __future__ import annotations

from .case import Case, case
from .scene import Scene

CASES: list[Case] = []
LIMIT = ("--handler-timeout", "0.5")


@case(CASES, never_interrupts="the handler is interrupted")
def too_long(scene: Scene) -> None:
    """A handler waits for ever: it is interrupted, and its message retried and parked."""
    scene.append("a", {"gate": "never"})
    running = scene.consume(*LIMIT, "--max-attempts", "2", "--until-empty")
    scene.expect(lambda: len(scene.events("cut")) == 2, "the handler is interrupted", control_s=5.0)
    scene.expect_end(running, 4)
    assert not running.told("consumer killed"), "a consumer was killed for it"
    scene.faults["a handler that waits for ever"] += 1


@case(CASES, blames_nobody="was not counted", stuck_unheard="the consumer is killed")
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


@case(CASES, nobody_listens="the consumer is killed")
def no_sign_of_life(scene: Scene) -> None:
    """A handler is C code that keeps the interpreter's lock: its consumer is killed, and another does the work."""
    scene.append("a", {"lock": 600})
    running = scene.consume(*LIMIT, "--lease", "1")
    scene.wait_begun("a-0")
    scene.expect(lambda: running.told("consumer killed"), "the consumer is killed", control_s=12.0)
    assert "no sign of life" in running.said
    scene.expect(lambda: len(scene.events("begun", "a-0")) == 2, "another has its group")
    scene.faults["a handler that keeps the interpreter's lock"] += 1
