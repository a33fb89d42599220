"""What a batch of calls is sent as, and what its answers say. Pure: whoever has a connection sends and receives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import redis

from ..calls.call import Call
from ..calls.net import Command
from ..errors import ServerUnavailable
from ..store.replies import Reading
from .refusals import translate
from .scripts import eval_command


class Exchange:
    """One round trip, and a second one for those calls whose script the server had lost."""

    def __init__(
        self,
        calls: Sequence[Call[Any]],
        make: Callable[[Call[Any]], Command],
        *,
        is_atomic: bool = False,
        wait: tuple[int, int] | None = None,
    ) -> None:
        """`make` says how a call is sent: EVALSHA or EVAL. `is_atomic` puts all into one MULTI/EXEC."""
        self._calls, self._make, self._is_atomic = calls, make, is_atomic and len(calls) > 1
        self._waits: list[Command] = [("WAIT", *wait)] if wait else []
        self._replies: Any = []
        self._confirmed: list[Any] = []
        self._missing: list[int] = []

    @property
    def confirmed(self) -> int:
        """How many replicas confirmed it, where that was asked for."""
        return self._confirmed[0] if self._confirmed else 0

    def commands(self) -> list[Command]:
        """What to send first."""
        if self._is_atomic:
            return [("MULTI",), *[eval_command(call) for call in self._calls], ("EXEC",), *self._waits]
        return [*[self._make(call) for call in self._calls], *self._waits]

    def again(self, answers: list[Any]) -> list[Command]:
        """Take the answers to the first commands; what to send besides: calls whose script the server had lost."""
        count = len(self._calls)
        if self._is_atomic:
            self._replies, *self._confirmed = answers[count + 1 :]
            if isinstance(self._replies, redis.exceptions.ExecAbortError):
                # The reason is the answer to what was refused.
                self._replies = next((one for one in answers if isinstance(one, Exception)), self._replies)
            return []
        self._replies, self._confirmed = answers[:count], answers[count:]
        self._missing = [i for i, one in enumerate(self._replies) if isinstance(one, redis.exceptions.NoScriptError)]
        return [*[eval_command(self._calls[i]) for i in self._missing], *self._waits] if self._missing else []

    def take_again(self, answers: list[Any]) -> None:
        """Take the answers to what was sent besides."""
        self._confirmed = answers[len(self._missing) :]
        for i, reply in zip(self._missing, answers, strict=False):
            self._replies[i] = reply

    def values(self, name: str) -> list[Any]:
        """What each call says. Raises what the server refused first, as ours; DataError."""
        answered = self._replies if isinstance(self._replies, list) else [self._replies]
        if refused := [reply for reply in [*answered, *self._confirmed] if isinstance(reply, Exception)]:
            failure = translate(refused[0], name)
            if isinstance(failure, ServerUnavailable):  # the answer to WAIT says nothing of what was carried out
                failure.maybe_sent = not all(isinstance(reply, Exception) for reply in answered)
            raise failure from refused[0]
        with Reading(name):
            return [call.parse(reply) for call, reply in zip(self._calls, self._replies, strict=True)]
