"""A call of one script: its name, keys, arguments, and the function that reads its reply.

Seconds that a caller names become whole milliseconds here. Times of a policy are made in `settings/policy.py`, a due
time in `store/envelope.py`, the wait for replicas in `QueueOptions.wait`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

from ..store.keys import ShardKeys
from ..store.ledger import Written
from ..store.text import dumps_words
from . import source

T = TypeVar("T")
UNDONE: Any = object()  # in place of a result: it is sure that the call was not carried out
Args = tuple[str | bytes, ...]


class Call(NamedTuple, Generic[T]):
    """A script's name, KEYS, ARGV and the function that reads its reply."""

    script: str
    keys: tuple[str, ...]
    args: Args
    parse: Callable[[Any], T]
    repeatable: bool = True
    now: str = ""  # in us since 1970; "" for the time of the server, but in tests

    def eval_command(self, generation: str = "", *, is_known: bool = False) -> tuple[Any, ...]:
        """As an EVAL with its script, or an EVALSHA; time and generation go behind all arguments."""
        name, read = ("EVALSHA", source.script_sha) if is_known else ("EVAL", source.script_source)
        return (name, read(self.script), len(self.keys), *self.keys, *self.args, self.now, generation)

    def known_command(self, known: set[str], generation: str = "") -> tuple[Any, ...]:
        """EVALSHA, but EVAL the first time on a connection: after a restart or failover the server lacks the script."""
        is_known = self.script in known
        known.add(self.script)
        return self.eval_command(generation, is_known=is_known)


def ms_text(seconds: float) -> str:
    return str(round(seconds * 1000))


def on_shard(keys: ShardKeys, script: str, *args: Any, parse: Callable[[Any], T]) -> Call[T]:
    """The call of a script that is given the schedule alone; each argument in the form in which scripts take it."""
    return Call(script, (keys.schedule,), tuple(map(_word, args)), parse)


def _word(value: Any) -> str | bytes:
    if value is None:
        return ""
    if isinstance(value, str | bytes):
        return value
    if isinstance(value, int):  # a flag too
        return f"{value:d}"
    return value.text() if isinstance(value, Written) else dumps_words(value)
