"""What may be sent again after a failure, how often, and whether it may have run by then: every net asks here.

| what failed               | calls, all repeatable        | other calls           |
|---------------------------|------------------------------|-----------------------|
| no connection was made    | again, `ATTEMPTS` in all     | said, as not sent     |
| lost after the sending    | again; then on a repeat      | said, as maybe sent   |
| the server loads its data | again, as not sent           | said, as not sent     |
| it can't for now          | again, `ATTEMPTS` in all     | said                  |
| its generation is another | again, by the new one        | again, by the new one |
| a node does not have it   | again until its time is over | the same              |
| a node of a cluster lost  | again until its time is over | said                  |
| anything else             | said                         | said                  |

Plain commands only read: what was lost is sent once more.

What a link asks of each fresh connection before all else is asked once more, on another, where that is lost.

"It can't for now" is an answer that is ServerUnavailable: a replica, or a server that can't write to its disk. Such an
answer says itself whether others of the same batch may have run.

A node of a cluster that does not have a key says where it is, or that it is on its way; or it can't serve for now. In
each case it has carried out nothing. No attempt begins when the time of a call is over.

WAIT speaks of what its own connection wrote. So a repeat, on another connection, asks about the first attempt only
where it writes too: each append does, and of a saved step the next one is asked about (drain/steps/runner.py).
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from typing import Any, Protocol

import redis

from ..calls.call import Call
from ..calls.net_protocol import Command
from ..errors import SequencerError, ServerUnavailable
from ..store.replies import Reading
from .refusals import NodeAway, NotHere, is_stale, translate

ATTEMPTS = 3  # how often a repeatable call is sent before its outcome is given up as unknown
FIRST_DELAY_S, MAX_DELAY_S = 0.02, 0.25
"""Before something is sent again, and at most; each delay is half as long again as the one before."""
ROUNDS = 12  # how often a call whose generation was another by then is sent by the generation that was found


def delays() -> Iterator[float]:
    delay_s = FIRST_DELAY_S
    while True:
        yield delay_s
        delay_s = min(1.5 * delay_s, MAX_DELAY_S)


class Repeats:
    """One batch that failed at least once."""

    __slots__ = ("_left", "delays", "maybe_sent")

    def __init__(self, calls: Sequence[Call[Any]], attempts: float = ATTEMPTS) -> None:
        self._left = attempts if all(call.repeatable for call in calls) else 1
        self.delays = delays()
        """Seconds to wait before each repeat."""
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


Ask = Callable[[Sequence[Command]], Awaitable[list[Any]]]
Sleep = Callable[[float], Awaitable[None]]


class Server(Protocol):
    total_s: float
    cluster: Any  # None for one server

    @property
    def name(self) -> str: ...


Trip = Generator[Any, Any, tuple[list[Any], int]]
"""Yields commands to send and is sent their answers, errors among them; yields seconds to wait, or None where the
generation is to be found first. Returns what each call says, and how many replicas confirmed it.
"""


async def settle(
    commands: Sequence[Command],
    answers: list[Any],
    until: float,
    ask: Ask,
    sleep: Sleep,
    *kinds: type[Exception],
) -> None:
    """Send again what nodes of a cluster did not carry out, or answered with these kinds, `until` that time of the
    monotonic clock; the answers take their places.

    At once where its node is known by now, else after a delay. What stands inside a MULTI asks about rights, and stays
    as it is.
    """
    rounds, waits = ROUNDS, delays()
    while found := [i for i, one in enumerate(answers) if isinstance(one, (NotHere, *kinds))]:
        if commands[-1][0] in ("MULTI", "DISCARD") or time.monotonic() >= until:
            return
        if rounds and all(isinstance(one := answers[i], NotHere) and one.is_known_where for i in found):
            rounds -= 1
        else:
            await sleep(next(waits))
        for i, answer in zip(found, await ask([commands[i] for i in found]), strict=True):
            answers[i] = answer


def round_trip(
    calls: Sequence[Call[Any]],
    command: Callable[[Call[Any]], Command],
    whole: Callable[[Call[Any]], Command],
    server: Server,
    has_guide: bool,
    began: float,
    wait: tuple[int, int] | None = None,
) -> Trip:
    """One round trip, a second one for calls whose script the server had lost, and more for those whose generation is
    another by now: they were refused, and nothing else is sent again.

    `command` and `whole`: how a call is sent, and how with its script. `began`: by the monotonic clock. Raises as
    Link.run.
    """
    waits: list[Command] = [("WAIT", *wait)] if wait else []
    replies = yield [*map(command, calls), *waits]
    confirmed: Any = replies.pop() if wait else 0
    rounds, pauses = ROUNDS, None
    while failed := [i for i, one in enumerate(replies) if isinstance(one, Exception)]:
        undone = [i for i in failed if is_undone(replies[i])]
        is_away = any(isinstance(replies[i], NotHere) and not replies[i].is_known_where for i in undone)
        is_over = time.monotonic() - began >= server.total_s
        # A lost script is always sent once more: this process may have been paused meanwhile.
        if not undone or rounds < 0 or (is_over and (is_away or rounds < ROUNDS)):
            break
        pauses = pauses or delays()
        if is_away:
            yield next(pauses)
        else:
            rounds -= 1
        if has_guide and any(is_stale(replies[i]) for i in undone):
            yield None
        again = yield [*[whole(calls[i]) for i in undone], *_asked_again(calls, undone, server, waits), *waits]
        confirmed = again.pop() if wait else 0
        for i, reply in zip(undone, again, strict=False):
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
            away = [one.maybe_sent for one in replies if isinstance(one, NodeAway)]
            failure.maybe_sent = len(failed) < len(replies) or any(away)
        failure.answers = values
        raise failure from refused
    return values, confirmed


def _asked_again(calls: Sequence[Call[Any]], undone: list[int], server: Server, waits: list[Command]) -> list[Command]:
    """In a cluster WAIT asks the nodes of its own batch: what brings it to those that did their part before."""
    if not (waits and server.cluster):
        return []
    return [("EXISTS", call.keys[0]) for i, call in enumerate(calls) if i not in undone]


def is_undone(reply: Exception) -> bool:
    """Whether the call was not carried out, and is to be sent again in full."""
    return isinstance(reply, redis.exceptions.NoScriptError | NotHere) or is_stale(reply)
