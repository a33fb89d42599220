"""A call of one script: its name, keys, arguments, and the function that reads its reply.

Seconds that a caller names become whole milliseconds here. Times of a policy are made in `settings/policy.py`, a due
time in `store/envelope.py`, the wait for replicas in `QueueOptions.wait`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

T = TypeVar("T")
UNDONE: Any = object()
"""In place of a result: it is sure that the call was not carried out."""


Args = tuple[str | bytes, ...]


class Call(NamedTuple, Generic[T]):
    """A script's name, KEYS, ARGV and the function that reads its reply."""

    script: str
    keys: tuple[str, ...]
    args: Args
    parse: Callable[[Any], T]
    repeatable: bool = True


def ms_text(seconds: float) -> str:
    return str(round(seconds * 1000))


def now_text(now_us: int | None) -> str:
    """The time as scripts take it: "" for the server's own."""
    return "" if now_us is None else str(now_us)
