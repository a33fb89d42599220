"""What may be sent again after a failure, how often, and whether it may have run by then. Pure: every net asks here.

| what failed              | calls, all repeatable            | other calls           | plain commands            |
|--------------------------|----------------------------------|-----------------------|---------------------------|
| no connection was made   | again, `ATTEMPTS` in all            | said, as not sent     | said, as not sent         |
| lost after the sending   | again; from then on a repeat     | said, as maybe sent   | again, once               |
| the server loads its data| again, as not sent               | said, as not sent     | again, once               |
| it can't for now         | again, `ATTEMPTS` in all            | said                  | said                      |
| its generation is another     | again, by the new one            | again, by the new one | -                         |
| anything else            | said                             | said                  | said                      |

What a link asks of each fresh connection before all else is asked once more, on another, where that is lost.

"It can't for now" is an answer that is ServerUnavailable: a replica, or a server that can't write to its disk. Such an
answer says itself whether others of the same batch may have run.

WAIT speaks of what its own connection wrote. So a repeat, on another connection, asks about the first attempt only
where it
writes too: each append does, and of a note the next one is asked about (drain/steps/runner.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import redis

from ..calls.call import Call
from ..calls.net_protocol import Command
from ..errors import SequencerError, ServerUnavailable
from ..store.replies import Reading
from .refusals import is_stale, translate

ATTEMPTS = 3
"""How often a repeatable call is sent before its outcome is given up as unknown."""
RETRY_DELAY_S = 0.05
ROUNDS = 12
"""How often a call whose generation was another by then is sent by the generation that was found."""
_is_repeatable = attrgetter("repeatable")


class Repeats:
    """One batch that failed at least once."""

    __slots__ = ("_is_plain", "_left", "maybe_sent")

    def __init__(self, calls: Sequence[Call[Any]] | None) -> None:
        """For calls, or with None for plain commands that may be carried out twice."""
        self._is_plain = calls is None
        self._left = 2 if calls is None else ATTEMPTS if all(map(_is_repeatable, calls)) else 1
        self.maybe_sent = False
        """Whether an attempt that failed may have been carried out: then the next one is a repeat."""

    @property
    def delay_s(self) -> float:
        """How long to wait before it is sent again."""
        return 0.0 if self._is_plain else RETRY_DELAY_S

    def failed(self, error: BaseException, name: str, *, is_sent: bool, is_over: bool = False) -> SequencerError | None:
        """What to raise after one more try failed with this error, also when its time `is_over`; None to send it again
        on a fresh connection.
        """
        self._left -= 1
        if isinstance(error, ServerUnavailable):
            failure: SequencerError = error
            self.maybe_sent = self.maybe_sent or error.maybe_sent
        else:
            failure = translate(error, name)
            # A server that loads its data has carried out nothing; redis-py closes the connection then.
            self.maybe_sent = self.maybe_sent or (is_sent and not isinstance(error, redis.BusyLoadingError))
        may_help = failure is not error if self._is_plain else isinstance(failure, ServerUnavailable)
        if may_help and self._left and not is_over:
            return None
        if isinstance(failure, ServerUnavailable):
            failure.maybe_sent = self.maybe_sent
        return failure


class RoundTrip:
    """What a batch of calls is sent as, and what its answers say. Whoever has a connection sends and receives.

    It is one round trip, and a second one for those calls whose script the server had lost.
    """

    def __init__(
        self,
        calls: Sequence[Call[Any]],
        make: Callable[[Call[Any]], Command],
        *,
        make_whole: Callable[[Call[Any]], Command] = Call.eval_command,
        is_atomic: bool = False,
        wait: tuple[int, int] | None = None,
    ) -> None:
        """`make` says how a call is sent: EVALSHA or EVAL; `make_whole` says how as EVAL. `is_atomic` puts all into one
        MULTI/EXEC.
        """
        self._calls, self._make, self._is_atomic = calls, make, is_atomic and len(calls) > 1
        self._make_whole = make_whole
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
            return [("MULTI",), *map(self._make_whole, self._calls), ("EXEC",), *self._waits]
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
        return self._some()

    def stale(self) -> list[Command]:
        """What to send once the new generation is known: those calls that were refused for their generation, and only
        those.
        """
        found = self._replies if isinstance(self._replies, list) else []
        self._missing = [i for i, reply in enumerate(found) if is_stale(reply)]
        return self._some()

    def _some(self) -> list[Command]:
        return [*[self._make_whole(self._calls[i]) for i in self._missing], *self._waits] if self._missing else []

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
