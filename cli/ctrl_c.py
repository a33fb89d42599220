"""Ctrl-C and SIGTERM in `append`, which sends what it reads, part by part. Of `consume` and `run`:
`processes/signals.py`.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


class Interruption:
    """Either one, while lines are read, ends that at once; while some are sent, what became of them is waited for. A
    second one waits for nothing.
    """

    def __init__(self) -> None:
        self.is_sending = self._is_noted = False
        self.status = 128 + signal.SIGINT
        """The exit status of a command that one of them ended."""

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Within, they come here; one that was ignored stays so."""
        old = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        for number, heard in old.items():
            if heard is not signal.SIG_IGN:
                signal.signal(number, self._note)
        try:
            yield
        finally:
            for number, heard in old.items():
                signal.signal(number, heard)

    def _note(self, number: int, _frame: object) -> None:
        self.status = 128 + number
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
