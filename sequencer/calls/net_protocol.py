"""What an operation may ask of the network. An operation awaits a Net and other operations, and nothing else. Pure.

An operation is a coroutine that is written once: the blocking client class finishes it with one `send`, since the
methods of a blocking net never suspend; an awaited net would need nothing else. A net repeats calls by its rules, and
raises ServerUnavailable (its `maybe_sent` says whether the calls may have run), ServerNotUsable, QueueFull, DataError.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Generic, NamedTuple, Protocol, TypedDict, TypeVar, Unpack

from ..settings.options import Replicas
from .call import Call

T = TypeVar("T")
Command = tuple[Any, ...]  # a plain command: its name and its words


class How(TypedDict, total=False):
    """How calls are sent."""

    wait: Replicas  # with a WAIT behind them
    meanwhile: Callable[[], None] | None
    """Called once they are sent, before their answers are awaited; it must raise nothing."""


class Answer(NamedTuple, Generic[T]):
    """What the server said to a call."""

    value: T
    is_repeat: bool = False
    """Whether the call was sent more than once, so that a first attempt may have been carried out."""
    confirmed: int = 0  # how many replicas confirmed it, where that was asked for


class Reader(Protocol):
    """What answers plain commands."""

    @property
    def name(self) -> str:
        """How to call the server in a text; never holds a password."""
        ...

    async def read(self, commands: Sequence[Command]) -> list[Any]:
        """Send plain commands in one round trip; raises the first error among the answers."""
        ...


class Net(Reader, Protocol):
    """One server or cluster. `read` is repeated once if a kept connection had gone stale, so only for what may run
    twice.
    """

    @property
    def is_cluster(self) -> bool: ...

    async def ask(self, call: Call[T], *, wait: Replicas = None) -> Answer[T]:
        """Send one call and read its reply. A repeatable call is repeated after a lost answer. `wait`: as of How."""
        ...

    async def ask_all(self, calls: Sequence[Call[Any]], **how: Unpack[How]) -> Answer[list[Any]]:
        """Send all calls at once and read their replies. An error of some has `answers`, those of the others."""
        ...

    def alone(self) -> AbstractAsyncContextManager[Alone]:
        """One connection for all that is sent inside, as WATCH and MULTI need it; it is closed when the block fails."""
        ...

    def once(self) -> AbstractAsyncContextManager[None]:
        """First use: one caller is inside at a time, the others wait and check again."""
        ...

    async def now(self) -> float:
        """Seconds of a clock that never goes back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class Alone(Reader, Protocol):
    """One connection. Nothing is repeated on it: what it may hold (a WATCH) goes with it."""

    async def answers(self, commands: Sequence[Command], *, within_s: float = ...) -> list[Any]:
        """As `read`, but the server's errors stand among the answers, as errors of ours. `within_s`: how long what is
        on its way to another node is waited for.
        """
        ...

    async def nodes(self) -> Sequence[Alone]:
        """Each primary of a cluster, for what is asked of servers, not of keys: SCAN, CLIENT LIST. One server: itself.

        Raises SequencerError.
        """
        ...

    def give_up(self) -> None:
        """Have the connection closed at the end of the block, though nothing failed: it is not fit for others."""
        ...
