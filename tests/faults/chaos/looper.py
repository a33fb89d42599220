"""A consumer of a chaos run with a loop of its own over `claim()`. It never renews, and at times outlives its lease."""

from __future__ import annotations

import os
import random
import time

from sequencer.errors import LeaseLost, Park, Retry, ServerError, SetAside
from sequencer.values.message import Message

from .setting import Setting
from .victim import LONG, misbehave, recorder

OUTLIVES = 0.01
"""The part of messages over whose handling the lease ends."""
IDLE_S = 0.05
MARGIN_S = 0.25
"""A run that ends so shortly before its lease does counts as outliving it: its acknowledgement may come too late."""


class Looper:
    """One process."""

    def __init__(self, setting: Setting) -> None:
        self._setting, self._seq = setting, setting.sequencer()
        self._random = random.Random(f"{setting.seed}:{os.getpid()}")
        self._handle = recorder().run(self._misbehave)

    def run(self) -> None:
        """Until its standard input says so, which ends the process."""
        while True:
            try:
                if not self._claim():
                    time.sleep(IDLE_S)
            except LeaseLost:
                recorder().note("seen", kind="lease lost")
            except (ServerError, Retry, Park, SetAside, ValueError):
                time.sleep(IDLE_S)

    def _claim(self) -> bool:
        with self._seq.claim(groups=2, messages=10, lease=self._setting.lease_s) as lease:
            for message in lease:
                began = time.monotonic()
                try:
                    self._handle(message)
                finally:
                    if lease.remaining_s < MARGIN_S:
                        until = time.monotonic()
                        recorder().note("fault", at=began, until=until, kind="lease outlived")
                lease.ack(message)
            return bool(lease)

    def _misbehave(self, message: Message) -> None:
        if self._random.random() < OUTLIVES and not self._setting.is_healed:
            self._announce(self._setting.lease_s * LONG)
            time.sleep(self._setting.lease_s * LONG)
        else:
            misbehave(message, self._announce)

    def _announce(self, seconds: float) -> None:
        """Said beforehand: a process that is killed meanwhile says nothing afterwards."""
        began = time.monotonic()
        recorder().note("fault", at=began, until=began + seconds, kind="lease outlived")
