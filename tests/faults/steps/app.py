"""The app whose consumers are killed in their steps: five a message, and what each did is in a file outside.

`STEPS_CONTROL` names a rule of the engine that is taken out, in the consumers only.
"""

from __future__ import annotations

import json
import os
from typing import Any, NamedTuple

from sequencer import Sequencer
from sequencer.drain.steps.rules import View
from sequencer.drain.steps.runner import StepRunner

EFFECTS, CONTROL = "STEPS_EFFECTS", "STEPS_CONTROL"
NAMES = "abcde"
ITEMS = [{"couple": couple, "id": f"{couple}{n}", "n": n} for couple in "xyz" for n in (1, 2)]


class Effect(NamedTuple):
    id: str
    step: str
    key: str


def effects() -> list[Effect]:
    """What steps did, in this order."""
    try:
        with open(os.environ[EFFECTS], encoding="utf-8") as file:
            return [Effect(*json.loads(line)) for line in file]
    except FileNotFoundError:
        return []


def effect(message: Any, step: Any) -> str:
    with open(os.environ[EFFECTS], "a", encoding="utf-8") as file:
        print(json.dumps([message.id, step.name, step.key]), file=file)
    return str(step.name)


def look(message: Any, step: Any) -> str | None:
    return step.name if step.key in {one.key for one in effects()} else None


def app(*, once: bool, is_checked: bool = False) -> Sequencer:
    seq = Sequencer("gifts", group_by=("couple",), id_by="id", score_by="n", backoff=0.01, max_attempts=9)
    for order, name in enumerate(NAMES):
        step = seq.step(name=name, order=order, once=once)(effect)
        if is_checked:
            step.check(look)
    return seq


automatic, once, checked = app(once=False), app(once=True), app(once=True, is_checked=True)


# -- negative control
# ------------------------------------------------------------------------------------------------------

note, call, handle, is_open = StepRunner._note, StepRunner._call, StepRunner.handle, View.is_open
_late: dict[str, Any] = {}
"""The note that is not yet sent."""


def dropped(self: Any, group: Any, asked: Any) -> Any:
    yield from ()
    return 1


def unwaited(self: Any, group: Any, asked: Any) -> Any:
    """The note is sent when the next one is due: a step runs meanwhile."""
    before, _late["note"] = _late.get("note"), asked
    if before is not None:
        yield from note(self, group, before)
    return 1


def anew(self: Any, group: Any, position: int) -> Any:
    _late.clear()
    return (yield from handle(self, group, position))


def start_kept(self: Any, group: Any, asked: Any) -> Any:
    if not asked.is_start:
        return (yield from note(self, group, asked))
    _late["note"] = group, asked
    return 1


def start_behind(self: Any, asked: Any) -> Any:
    heard = yield from call(self, asked)
    if late := _late.pop("note", None):
        yield from note(self, *late)
    return heard


def as_automatic(self: Any, step: Any) -> bool:
    return is_open(self, step) or self.entry(step.name).state == "started"


CONTROLS: dict[str, list[tuple[Any, str, Any]]] = {
    "note dropped": [(StepRunner, "_note", dropped)],
    "note not waited for": [(StepRunner, "_note", unwaited), (StepRunner, "handle", anew)],
    "start noted after the call": [(StepRunner, "_note", start_kept), (StepRunner, "_call", start_behind)],
    "once handled as automatic": [(View, "is_open", as_automatic)],
}
for where, attribute, broken in CONTROLS.get(os.environ.get(CONTROL, ""), ()):
    setattr(where, attribute, broken)
