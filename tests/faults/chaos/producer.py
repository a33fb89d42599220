"""A producer of a chaos run: appends one or many, and repeats by id what failed or is unknown, as the README says.

Mutant "trusting": it takes an unknown outcome for a stored message.
"""

from __future__ import annotations

import os
import random
import time
from typing import Any

from sequencer.client import Sequencer
from sequencer.errors import OutcomeUnknown, QueueFull, ServerError

from ...support.judge.history import Recorder
from .setting import Setting

GROUPS = 12
PACE_S = 0.012
RETRY_S = 0.05
GIVE_UP_S = 8.0
"""How long after healing an outcome may stay unknown."""
Item = dict[str, Any]


class Producer:
    """One process. Every message is unknown, refused or appended in its history before the next one is made."""

    def __init__(self, setting: Setting) -> None:
        self._setting, self._seq = setting, setting.sequencer()
        self._events: Recorder = setting.recorder("producer")
        self._random = random.Random(f"{setting.seed}:{os.getpid()}")
        self._made = 0
        self._numbers: dict[str, int] = {}
        self._healed_at: float | None = None

    def run(self) -> None:
        """Until the faults are over; what was begun is finished."""
        last: Item | None = None
        while not self._is_over():
            chance = self._random.random()
            if chance < 0.03 and last:
                self._settle([last])  # again: adds nothing
            elif chance < 0.15:
                self._settle([self._make() for _ in range(self._random.randrange(2, 30))])
            else:
                last = self._make()
                self._settle([last])
            time.sleep(PACE_S * 2 * self._random.random())
        self._seq.close()

    def _is_over(self) -> bool:
        if self._healed_at is None and self._setting.is_healed:
            self._healed_at = time.monotonic()
        return self._healed_at is not None

    def _make(self) -> Item:
        self._made += 1
        group = f"g{self._random.randrange(GROUPS)}"
        item: Item = {"body": self._made, "id": f"{os.getpid()}-{self._made}"}
        if self._setting.policy == "sequence":
            group = f"{group}-{os.getpid()}"
            item["score"] = self._numbers[group] = self._numbers.get(group, 0) + 1
        elif self._random.random() < 0.05:
            item["delay"] = round(self._random.random() * 0.5, 3)
        else:
            item["score"] = time.time() - (0.05 if self._random.random() < 0.05 else 0)
        return {**item, "group": group}

    def _settle(self, items: list[Item]) -> None:
        for item in items:
            self._events.note("appending", group=item["group"], id=item["id"], score=item.get("score", 0.0))
        while not self._try(items):
            if self._is_over() and time.monotonic() > (self._healed_at or 0.0) + GIVE_UP_S:
                return
            time.sleep(RETRY_S)

    def _try(self, items: list[Item]) -> bool:
        try:
            append(self._seq, self._events, items)
        except OutcomeUnknown:
            self._events.note("unknown", kind="OutcomeUnknown")
            if self._setting.mutant != "trusting":
                return False
            for item in items:
                self._events.note("appended", group=item["group"], id=item["id"], kind="stored")
        except (QueueFull, ServerError) as error:
            self._events.note("refused", kind=type(error).__name__)
            return False
        return True


def append(seq: Sequencer, events: Recorder, items: list[Item]) -> None:
    """Append one message, or several at once, and record what was said of them."""
    if len(items) == 1:
        item = items[0]
        rest = {name: item[name] for name in ("score", "delay") if name in item}
        receipt = seq.append(item["body"], group=item["group"], id=item["id"], **rest)
        events.note("appended", group=item["group"], id=item["id"], stamp=receipt.stamp or 0, kind=receipt.outcome)
        return
    result = seq.append_many(items)
    for item in items:
        events.note("appended", group=item["group"], id=item["id"], kind="stored")
    if result.duplicates:
        events.note("seen", kind="duplicate refused")
