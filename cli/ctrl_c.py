"""Ctrl-C in `append`, which sends what it reads, part by part. Of `consume` and `run`: `processes/signals.py`."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


class Interruption:
    """Ctrl-C while lines are read ends that at once; while some are sent, what became of them is waited for. A second
    one waits for nothing.
    """

    def __init__(self) -> None:
        self.is_sending = self._is_noted = False

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Within, Ctrl-C comes here; where it was ignored, it stays so."""
        old = signal.getsignal(signal.SIGINT)
        if old is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, self._note)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, old)

    def _note(self, *_: object) -> None:
        if self._is_noted or not self.is_sending:
            raise KeyboardInterrupt
        self._is_noted = True

    @contextmanager
    def sending(self) -> Iterator[None]:
        """An interruption within waits for the end."""
        self.is_sending = True
        yield
        self.is_sending = False
        if self._is_noted:
            raise KeyboardInterrupt
