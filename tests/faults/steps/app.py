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


# -- negative controls ----------------------------------------------------------------------------------------------

is_open = View.is_open


def dropped(self: Any, group: Any, asked: Any) -> Any:
    yield from ()
    return 1


def as_automatic(self: Any, step: Any) -> bool:
    return is_open(self, step) or self.entry(step.name).state == "started"


CONTROLS: dict[str, tuple[Any, str, Any]] = {
    "note dropped": (StepRunner, "_note", dropped),
    "once handled as automatic": (View, "is_open", as_automatic),
}
if os.environ.get(CONTROL):
    setattr(*CONTROLS[os.environ[CONTROL]])
