"""What may be sent again after a failure, how often, and whether it may have run by then. Pure: every net asks here.

| what failed               | calls, all repeatable        | other calls           |
|---------------------------|------------------------------|-----------------------|
| no connection was made    | again, `ATTEMPTS` in all     | said, as not sent     |
| lost after the sending    | again; then on a repeat      | said, as maybe sent   |
| the server loads its data | again, as not sent           | said, as not sent     |
| it can't for now          | again, `ATTEMPTS` in all     | said                  |
| its generation is another | again, by the new one        | again, by the new one |
| anything else             | said                         | said                  |

Plain commands only read: what was lost is sent once more.

What a link asks of each fresh connection before all else is asked once more, on another, where that is lost.

"It can't for now" is an answer that is ServerUnavailable: a replica, or a server that can't write to its disk. Such an
answer says itself whether others of the same batch may have run.

WAIT speaks of what its own connection wrote. So a repeat, on another connection, asks about the first attempt only
where it writes too: each append does, and of a saved step the next one is asked about (drain/steps/runner.py).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, Protocol

import redis

from ..calls.call import Call
from ..calls.net_protocol import Command
from ..errors import SequencerError, ServerUnavailable
from ..store.replies import Reading
from .refusals import is_stale, translate

ATTEMPTS = 3  # how often a repeatable call is sent before its outcome is given up as unknown
RETRY_DELAY_S = 0.05  # before it is sent again
ROUNDS = 12  # how often a call whose generation was another by then is sent by the generation that was found


class Repeats:
    """One batch that failed at least once."""

    __slots__ = ("_left", "maybe_sent")

    def __init__(self, calls: Sequence[Call[Any]]) -> None:
        self._left = ATTEMPTS if all(call.repeatable for call in calls) else 1
        self.maybe_sent = False
        """Whether an attempt that failed may have been carried out: then the next one is a repeat."""

    def failed(self, error: BaseException, name: str, *, is_sent: bool, is_over: bool = False) -> SequencerError | None:
        """What to raise after one more try failed, also when its time `is_over`; None to send it again, on another."""
        self._left -= 1
        if isinstance(error, ServerUnavailable):
            failure: SequencerError = error
            self.maybe_sent = self.maybe_sent or error.maybe_sent
        else:
            failure = translate(error, name)
            # A server that loads its data has carried out nothing; redis-py closes the connection then.
            self.maybe_sent = self.maybe_sent or (is_sent and not isinstance(error, redis.BusyLoadingError))
        if isinstance(failure, ServerUnavailable):
            if self._left and not is_over:
                return None
            failure.maybe_sent = self.maybe_sent
        return failure


class Named(Protocol):
    @property
    def name(self) -> str: ...


Trip = Generator[list[Command] | None, list[Any], tuple[list[Any], int]]
"""Yields commands to send and is sent their answers, errors among them; yields None where the generation is to be found
first. Returns what each call says, and how many replicas confirmed it.
"""


def round_trip(
    calls: Sequence[Call[Any]],
    command: Callable[[Call[Any]], Command],
    whole: Callable[[Call[Any]], Command],
    server: Named,
    has_guide: bool,
    wait: tuple[int, int] | None = None,
) -> Trip:
    """One round trip, a second one for calls whose script the server had lost, and more for those whose generation is
    another by now: they were refused, and nothing else is sent again.

    `command` and `whole`: how a call is sent, and how with its script. Raises as Link.run.
    """
    waits: list[Command] = [("WAIT", *wait)] if wait else []
    replies = yield [*map(command, calls), *waits]
    confirmed: Any = replies.pop() if wait else 0
    rounds = ROUNDS
    while failed := [i for i, one in enumerate(replies) if isinstance(one, Exception)]:
        undone = [i for i in failed if is_undone(replies[i])]
        if not undone or rounds < 0:
            break
        rounds -= 1
        if has_guide and any(is_stale(replies[i]) for i in undone):
            yield None
        again = yield [*[whole(calls[i]) for i in undone], *waits]
        confirmed = again.pop() if wait else 0
        for i, reply in zip(undone, again, strict=True):
            replies[i] = reply
    try:
        values = [
            None if isinstance(one, Exception) else call.parse(one) for call, one in zip(calls, replies, strict=True)
        ]
    except Exception:
        with Reading(server.name):
            raise
    if failed or isinstance(confirmed, Exception):
        refused = replies[failed[0]] if failed else confirmed
        failure = translate(refused, server.name)
        if isinstance(failure, ServerUnavailable):  # the answer to WAIT says nothing of what was carried out
            failure.maybe_sent = len(failed) < len(replies)
        failure.answers = values
        raise failure from refused
    return values, confirmed


def is_undone(reply: Exception) -> bool:
    """Whether the call was not carried out, and is to be sent again in full."""
    return isinstance(reply, redis.exceptions.NoScriptError) or is_stale(reply)
