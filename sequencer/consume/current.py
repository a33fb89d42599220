"""Which message is in progress, for code anywhere below a handler."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from ..values.message import Message


class Source(Protocol):
    @property
    def running(self) -> tuple[Message, float] | None: ...


CURRENT: ContextVar[Source | Message | None] = ContextVar("sequencer current", default=None)
"""Set once where one thread runs handlers; on an event loop, where what a handler began may outlive it, by each."""


def current_message() -> Message | None:
    """The message that is being handled, as it is stored, for code below its handler or step, such as a log filter;
    None outside. Tasks that the handler creates and threads of `asyncio.to_thread` have it too, a `threading.Thread`
    does not.
    """
    found = CURRENT.get()
    if found is None or isinstance(found, Message):
        return found
    return running[0] if (running := found.running) else None


@contextmanager
def in_progress(source: Source) -> Iterator[None]:
    """Within, what this runs is the current message."""
    token = CURRENT.set(source)
    try:
        yield
    finally:
        CURRENT.reset(token)
