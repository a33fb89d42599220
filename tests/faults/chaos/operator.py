"""The operator of a chaos run: pauses, resumes, redrives, explains and examines, beside everything else.

What `doctor` finds while faults go on is as wrong as at the end: each of its findings is confirmed in one step.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable

from sequencer.client import Sequencer
from sequencer.doctor.diagnose import is_healthy
from sequencer.errors import SequencerError
from sequencer.texts.findings import Finding

from ...support.judge.history import Recorder
from .setting import Setting

PACE_S = 0.15
PAUSE_S = 0.2
OF_THE_SERVER = ("version", "role", "loading", "eviction", "memory", "persistence", "replicas", "rights", "queues")
"""What a doctor says of the server may be the doing of the proxy."""


class Operator:
    """One process."""

    def __init__(self, setting: Setting) -> None:
        self._setting, self._seq = setting, setting.sequencer()
        self._events: Recorder = setting.recorder("operator")
        self._random = random.Random(f"{setting.seed}:{os.getpid()}")

    def run(self) -> None:
        """Until the faults are over."""
        acts: list[Callable[[Sequencer], None]] = [
            self._pause_group,
            self._pause_queue,
            self._resume,
            self._redrive,
            self._explain,
            self._examine,
        ]
        while not self._setting.is_healed:
            act = self._random.choice(acts)
            try:
                act(self._seq)
                self._events.note("seen", kind=f"operator: {act.__name__.strip('_').replace('_', ' ')}")
            except SequencerError as error:
                self._events.note("refused", kind=f"operator: {type(error).__name__}")
            time.sleep(PACE_S * 2 * self._random.random())

    def _pause_group(self, seq: Sequencer) -> None:
        for info in seq.groups(limit=1):
            seq.pause(info.group)
            time.sleep(PAUSE_S * self._random.random())
            seq.unpause(info.group)

    def _pause_queue(self, seq: Sequencer) -> None:
        seq.pause()
        time.sleep(PAUSE_S * self._random.random())
        seq.unpause()

    def _resume(self, seq: Sequencer) -> None:
        for info in seq.parked(limit=3):
            seq.resume(info.group)

    def _redrive(self, seq: Sequencer) -> None:
        for dead in seq.dead(limit=3):
            seq.redrive(dead.message.group, id=dead.message.id)

    def _explain(self, seq: Sequencer) -> None:
        for info in seq.groups(limit=3):
            told = seq.explain(info.group)
            if told.reason == "broken":
                self._events.note("seen", kind=f"broken: {told.text}")

    def _examine(self, seq: Sequencer) -> None:
        for finding in broken(seq.doctor()):
            self._events.note("seen", kind=f"broken: {finding.check}: {finding.text}")


def broken(findings: list[Finding]) -> list[Finding]:
    """Those that no fault of the proxy explains."""
    problems = [one for one in findings if not is_healthy([one]) and one.check not in OF_THE_SERVER]
    return [one for one in problems if one.code != "unchecked"]
