"""One connection, and what is sent on it: calls in one round trip or ahead of their answers, and plain commands."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import redis

from ..calls.call import UNDONE, Call
from ..calls.net_protocol import Command
from ..errors import ServerNotUsable, ServerUnavailable
from ..store.replies import Reading
from .alone import Guide, Looks
from .endpoint import Connection, Endpoint, receive, send
from .refusals import is_astray, translate
from .repeats import ROUNDS, Repeats, RoundTrip
from .scripts import eval_command, known_command

T = TypeVar("T")
RECENT_S = 1.0
"""A connection that was used within this time counts as open; the shortest `timeout` of a server is as long."""


class Link:
    """One connection, made when first used and again after an error. Not for two threads at once."""

    def __init__(self, endpoint: Endpoint, guide: Guide | None = None) -> None:
        """Without a `guide`, calls bring no route, and are taken by each lane as it is."""
        self.endpoint = endpoint
        self.looks = Looks(guide)
        self._unread = 0
        """How many posts are not collected yet: nothing may be asked meanwhile."""
        self.is_repeat = False
        """Whether the last `run` sent its calls more than once, so that a first try may have been carried out."""
        self.confirmed = 0
        """How many replicas confirmed the last `run` that asked for it."""
        self._connection: Connection = None
        self._used_at = 0.0
        self._known: set[str] = set()
        """Scripts that were sent in full on this connection."""

    def connection(self) -> Connection:
        """One that was not used for a while may be closed at the other end by now: then it is replaced."""
        began = time.monotonic()
        if self._connection is not None and not self._unread:
            if began - self._used_at > RECENT_S and self._is_closed():
                self.close()
            else:
                self._look_again(began)
        self._used_at = began
        if self._connection is None:
            for is_last in (False, True):  # what is asked of a fresh one is asked once more, if that one is lost too
                connection = self.endpoint.connect()
                try:
                    self.looks.begin(connection)
                    break
                except BaseException as error:
                    connection.disconnect()
                    if is_last or not isinstance(error, ServerUnavailable) or self._is_over(began):
                        raise
            self._connection, self._known, self._unread = connection, set(), 0
        return self._connection

    def _look_again(self, began: float) -> None:
        try:
            self._look(self.looks.again)
        except ServerUnavailable:  # the connection may be all that is lost
            if self._is_over(began):
                raise

    def _is_over(self, began: float) -> bool:
        """Whether the time is over that the URL grants a call with all its repeats."""
        return time.monotonic() - began >= self.endpoint.total_s

    def _is_closed(self) -> bool:
        """Whether the other end closed the connection, which the socket tells without a round trip."""
        try:
            return bool(self._connection.can_read(0))
        except (redis.RedisError, OSError):
            return True

    def _look(self, look: Callable[[Connection], None]) -> None:
        try:
            look(self._connection)
        except ServerUnavailable:
            self.close()
            raise

    def refresh(self) -> None:
        """Connect anew if the other end closed the connection, which the socket tells without a round trip."""
        if self._connection is not None and self._is_closed():
            self.close()
        try:
            self.connection()
        except (redis.RedisError, OSError) as error:
            self.close()
            raise translate(error, self.endpoint.name) from error

    def _command(self, call: Call[Any]) -> Command:
        return known_command(call, self._known, self.looks.route)

    def _whole_command(self, call: Call[Any]) -> Command:
        return eval_command(call, self.looks.route)

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.disconnect()

    def run_one(self, call: Call[T]) -> T:
        result: T = self.run((call,))[0]
        return result

    def run(
        self,
        calls: Sequence[Call[Any]],
        *,
        is_atomic: bool = False,
        wait: tuple[int, int] | None = None,
        meanwhile: Callable[[], None] | None = None,
    ) -> list[Any]:
        """Send all calls at once and return their parsed replies.

        What may be sent again says `repeats`. `is_atomic` puts them into one MULTI/EXEC, which
        Redis refuses as a whole at its maxmemory. Without it, a call whose script the server has lost runs after the
        others. `wait` (replicas, ms) sends WAIT behind them; see `confirmed`. `meanwhile` is called once they are sent,
        before their answers are awaited; it must raise nothing.

        Raises ServerUnavailable (its `maybe_sent` says whether the calls may have run), ServerNotUsable, QueueFull,
        DataError.
        """
        repeats: Repeats | None = None
        began = time.monotonic()
        while True:
            self.is_repeat, is_sent = repeats is not None and repeats.maybe_sent, False
            try:
                connection = self.connection()
                is_sent = True
                if len(calls) == 1 and not wait:
                    return [self._run_single(connection, calls[0], meanwhile)]
                return self._run_once(connection, calls, is_atomic, wait, meanwhile)
            except (redis.RedisError, OSError, ServerUnavailable) as error:
                self.close()
                repeats = repeats or Repeats(calls)
                failure = repeats.failed(error, self.endpoint.name, is_sent=is_sent, is_over=self._is_over(began))
                if failure is error:
                    raise
                if failure:
                    raise failure from error
            time.sleep(repeats.delay_s)

    def post(self, calls: Sequence[Call[Any]], *, behind: Sequence[Any] = ()) -> None:
        """Send calls and wait for nothing; `collect` brings their answers, once for each `post` and in their order.

        They go `behind` this plain command, if there is one; its answer is read by the caller, first. Raises as `run`
        does; after that, what was posted before is lost too.
        """
        try:
            connection = self.connection()
            send(connection, [*([behind] if behind else ()), *map(self._command, calls)])
            self._unread += 1
        except BaseException as error:
            if not isinstance(error, ServerNotUsable):  # a look said so: nothing was sent, and nothing is awaited
                self.close()
            if isinstance(error, redis.RedisError | OSError):
                raise translate(error, self.endpoint.name) from error
            raise

    def is_answered(self, within_s: float) -> bool:
        """Whether `collect` finds an answer or a lost connection in that time, or is to wait, since a look is due."""
        try:
            return self._connection is None or self.looks.is_due or bool(self._connection.can_read(within_s))
        except (redis.RedisError, OSError):
            self.close()
            return True

    def collect(self, calls: Sequence[Call[Any]]) -> list[Any]:
        """The replies to what was posted, for `parsed`, errors of the server's among them. Raises ServerUnavailable,
        ServerNotUsable; what was posted later is lost then.
        """
        try:
            if self._connection is None:
                raise redis.ConnectionError("the connection was lost meanwhile")
            replies = receive(self._connection, len(calls))
            self._unread -= 1
            for call, reply in zip(calls, replies, strict=True):
                if isinstance(reply, redis.exceptions.NoScriptError):
                    self._known.discard(call.script)
                elif is_astray(reply):
                    self.looks.is_astray = True
            return replies
        except BaseException as error:
            self.close()
            if isinstance(error, redis.RedisError | OSError):
                raise translate(error, self.endpoint.name) from error
            raise

    def parsed(self, calls: Sequence[Call[Any]], replies: Sequence[Any]) -> list[Any]:
        """What these replies say; UNDONE for a call whose script the server has lost, or whose route is another by now;
        a SequencerError for one that it refused. Raises DataError.
        """
        with Reading(self.endpoint.name):
            return [self._said(call, reply) for call, reply in zip(calls, replies, strict=True)]

    def _said(self, call: Call[Any], reply: Any) -> Any:
        if not isinstance(reply, Exception):
            return call.parse(reply)
        is_undone = isinstance(reply, redis.exceptions.NoScriptError) or is_astray(reply)
        return UNDONE if is_undone else translate(reply, self.endpoint.name)

    def _run_single(self, connection: Connection, call: Call[Any], meanwhile: Callable[[], None] | None) -> Any:
        """As `_run_once`, in a third of its time: most calls are alone, and many are awaited one by one."""
        self.confirmed = 0
        (reply,) = self._exchange(connection, (self._command(call),), meanwhile)
        if isinstance(reply, redis.exceptions.NoScriptError):
            (reply,) = self._exchange(connection, (self._whole_command(call),))
        for _ in range(ROUNDS) if self.looks.is_guided and is_astray(reply) else ():
            self._look(self.looks.find_route)
            (reply,) = self._exchange(connection, (self._whole_command(call),))
            if not is_astray(reply):
                break
        if isinstance(reply, Exception):
            raise translate(reply, self.endpoint.name) from reply
        try:
            return call.parse(reply)
        except Exception:
            with Reading(self.endpoint.name):
                raise

    def _run_once(
        self,
        connection: Connection,
        calls: Sequence[Call[Any]],
        is_atomic: bool,
        wait: tuple[int, int] | None,
        meanwhile: Callable[[], None] | None,
    ) -> list[Any]:
        whole = self._whole_command
        round_trip = RoundTrip(calls, self._command, make_whole=whole, is_atomic=is_atomic, wait=wait)
        if again := round_trip.again(self._exchange(connection, round_trip.commands(), meanwhile)):
            round_trip.take_again(self._exchange(connection, again))
        for _ in range(ROUNDS) if self.looks.is_guided and round_trip.astray() else ():
            self._look(self.looks.find_route)
            round_trip.take_again(self._exchange(connection, round_trip.astray()))
            if not round_trip.astray():
                break
        values, self.confirmed = round_trip.values(self.endpoint.name), round_trip.confirmed
        return values

    def command(self, *words: Any) -> Any:
        """One plain command. Raises as `run` does, without repeats."""
        return self.commands([words])[0]

    def commands(self, commands: Sequence[Sequence[Any]]) -> list[Any]:
        """Plain commands in one round trip, repeated once on a fresh connection if a kept one had gone stale."""
        repeats: Repeats | None = None
        began = time.monotonic()
        while True:
            try:
                replies = self._exchange(self.connection(), commands)
                break
            except (redis.RedisError, OSError) as error:
                self.close()
                repeats = repeats or Repeats(None)
                if failure := repeats.failed(error, self.endpoint.name, is_sent=True, is_over=self._is_over(began)):
                    raise failure from error
        for reply in replies:
            if isinstance(reply, Exception):
                raise translate(reply, self.endpoint.name) from reply
        return replies

    def _exchange(
        self,
        connection: Connection,
        commands: Sequence[Sequence[Any]],
        meanwhile: Callable[[], None] | None = None,
    ) -> list[Any]:
        try:
            send(connection, commands)
            if meanwhile:
                meanwhile()
            return receive(connection, len(commands))
        except BaseException:
            # An answer may still be on its way: this connection would give it to the next question.
            self.close()
            raise
