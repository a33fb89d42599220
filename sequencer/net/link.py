"""One connection, and what is sent on it: calls in one round trip or ahead of their answers, and plain commands."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, TypeVar

import redis

from ..calls.call import UNDONE, Call
from ..errors import ServerUnavailable
from .endpoint import Connection, Endpoint
from .refusals import Reading, translate
from .scripts import eval_command, evalsha_command
from .transport import receive, send

T = TypeVar("T")
_is_repeatable = attrgetter("repeatable")

TRIES = 3
"""How often a repeatable call is sent before its outcome is given up as unknown."""
RETRY_DELAY_S = 0.05


class Link:
    """One connection, made when first used and again after an error. Not for two threads at once."""

    def __init__(self, endpoint: Endpoint, on_connect: Callable[[Connection], None] | None = None) -> None:
        """`on_connect` is called with each new connection, the first one too, before anything else is sent on it."""
        self.endpoint = endpoint
        self._on_connect = on_connect
        self.is_repeat = False
        """Whether the last `run` sent its calls more than once, so that a first try may have been carried out."""
        self.confirmed = 0
        """How many replicas confirmed the last `run` that asked for it."""
        self._connection: Connection = None
        self._known: set[str] = set()
        """Scripts that were sent in full on this connection."""

    def connection(self) -> Connection:
        if self._connection is None:
            connection = self.endpoint.connect()
            if self._on_connect:
                try:
                    self._on_connect(connection)
                except BaseException:
                    connection.disconnect()
                    raise
            self._connection, self._known = connection, set()
        return self._connection

    def refresh(self) -> None:
        """Connect anew if the other end closed the connection, which the socket tells without a round trip."""
        try:
            is_over = self._connection is not None and self._connection.can_read(0)
        except (redis.RedisError, OSError):
            is_over = True
        if is_over:
            self.close()
        try:
            self.connection()
        except (redis.RedisError, OSError) as error:
            self.close()
            raise translate(error, self.endpoint.name) from error

    def _command(self, call: Call[Any]) -> tuple[Any, ...]:
        """EVALSHA, but EVAL the first time on a connection: after a restart or failover the server lacks the script,
        and one that is sent again alone runs after the other calls of its batch.
        """
        if call.script in self._known:
            return evalsha_command(call)
        self._known.add(call.script)
        return eval_command(call)

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
        in_order: bool = False,
        wait: tuple[int, int] | None = None,
        meanwhile: Callable[[], None] | None = None,
    ) -> list[Any]:
        """Send all calls at once and return their parsed replies.

        Calls that are all repeatable are sent up to `TRIES` times. `is_atomic` puts them into one MULTI/EXEC, which
        Redis refuses as a whole at its maxmemory; `in_order` sends each with its script. Without either, a call whose
        script the server has lost runs after the others. `wait` (replicas, ms) sends WAIT behind them; see `confirmed`.
        `meanwhile` is called once they are sent, before their answers are awaited; it must raise nothing.

        Raises ServerUnavailable (its `maybe_sent` says whether the calls may have run), ServerNotUsable, QueueFull,
        DataError.
        """
        tries = TRIES if all(map(_is_repeatable, calls)) else 1
        maybe_sent = self.is_repeat = False
        while True:
            tries -= 1
            self.is_repeat, is_sent = maybe_sent, False
            try:
                connection = self.connection()
                is_sent = True
                if len(calls) == 1 and not wait:
                    return [self._run_single(connection, calls[0], in_order, meanwhile)]
                return self._run_once(connection, calls, is_atomic, in_order, wait, meanwhile)
            except (redis.RedisError, OSError) as error:
                self.close()
                # A server that loads its data has carried out nothing; redis-py closes the connection then.
                maybe_sent = maybe_sent or (is_sent and not isinstance(error, redis.BusyLoadingError))
                failure = translate(error, self.endpoint.name)
                cause: BaseException = error
            except ServerUnavailable as error:
                self.close()
                failure, maybe_sent = error, maybe_sent or error.maybe_sent
                cause = error.__cause__ or error
            if not isinstance(failure, ServerUnavailable) or not tries:
                if isinstance(failure, ServerUnavailable):
                    failure.maybe_sent = maybe_sent
                raise failure from cause
            time.sleep(RETRY_DELAY_S)

    def post(self, calls: Sequence[Call[Any]], *, in_order: bool = False, behind: Sequence[Any] = ()) -> None:
        """Send calls and wait for nothing; `collect` brings their answers, once for each `post` and in their order.

        They go `behind` this plain command, if there is one; its answer is read by the caller, first. Raises as `run`
        does; after that, what was posted before is lost too.
        """
        make = eval_command if in_order else self._command
        try:
            connection = self.connection()
            send(connection, [*([behind] if behind else ()), *(make(call) for call in calls)])
        except BaseException as error:
            self.close()
            if isinstance(error, redis.RedisError | OSError):
                raise translate(error, self.endpoint.name) from error
            raise

    def is_answered(self, within_s: float) -> bool:
        """Whether, within so long, `collect` would find the beginning of an answer, or a lost connection."""
        try:
            return self._connection is None or bool(self._connection.can_read(within_s))
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
            for call, reply in zip(calls, replies, strict=True):
                if isinstance(reply, redis.exceptions.NoScriptError):
                    self._known.discard(call.script)
            return replies
        except BaseException as error:
            self.close()
            if isinstance(error, redis.RedisError | OSError):
                raise translate(error, self.endpoint.name) from error
            raise

    def parsed(self, calls: Sequence[Call[Any]], replies: Sequence[Any]) -> list[Any]:
        """What these replies say; UNDONE for a call whose script the server has lost, a SequencerError for one that it
        refused. Raises DataError.
        """
        with Reading(self.endpoint.name):
            return [self._said(call, reply) for call, reply in zip(calls, replies, strict=True)]

    def _said(self, call: Call[Any], reply: Any) -> Any:
        if not isinstance(reply, Exception):
            return call.parse(reply)
        is_undone = isinstance(reply, redis.exceptions.NoScriptError)
        return UNDONE if is_undone else translate(reply, self.endpoint.name)

    def _run_single(
        self, connection: Connection, call: Call[Any], in_order: bool, meanwhile: Callable[[], None] | None
    ) -> Any:
        """As `_run_once`, in a third of its time: most calls are alone, and many are awaited one by one."""
        self.confirmed = 0
        (reply,) = self._exchange(connection, (eval_command(call) if in_order else self._command(call),), meanwhile)
        if isinstance(reply, redis.exceptions.NoScriptError):
            (reply,) = self._exchange(connection, (eval_command(call),))
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
        in_order: bool,
        wait: tuple[int, int] | None,
        meanwhile: Callable[[], None] | None,
    ) -> list[Any]:
        waits = [("WAIT", *wait)] if wait else []
        confirmed: list[Any] = []
        if is_atomic and len(calls) > 1:
            commands = [("MULTI",), *[eval_command(call) for call in calls], ("EXEC",)]
            answers = self._exchange(connection, commands + waits, meanwhile)
            replies, *confirmed = answers[len(calls) + 1 :]
            if isinstance(replies, redis.exceptions.ExecAbortError):  # the reason is the answer to what was refused
                replies = next((answer for answer in answers if isinstance(answer, Exception)), replies)
        else:
            make = eval_command if in_order else self._command
            replies = self._exchange(connection, [make(call) for call in calls] + waits, meanwhile)
            replies, confirmed = replies[: len(calls)], replies[len(calls) :]
            missing = [i for i, reply in enumerate(replies) if isinstance(reply, redis.exceptions.NoScriptError)]
            if missing:
                again = self._exchange(connection, [eval_command(calls[i]) for i in missing] + waits)
                confirmed = again[len(missing) :]
                for i, reply in zip(missing, again, strict=False):
                    replies[i] = reply
        answered = replies if isinstance(replies, list) else [replies]
        if refused := [reply for reply in [*answered, *confirmed] if isinstance(reply, Exception)]:
            failure = translate(refused[0], self.endpoint.name)
            if isinstance(failure, ServerUnavailable):  # the answer to WAIT says nothing of what was carried out
                failure.maybe_sent = not all(isinstance(reply, Exception) for reply in answered)
            raise failure from refused[0]
        self.confirmed = confirmed[0] if confirmed else 0
        with Reading(self.endpoint.name):
            return [call.parse(reply) for call, reply in zip(calls, replies, strict=True)]

    def command(self, *words: Any) -> Any:
        """One plain command. Raises as `run` does, without repeats."""
        return self.commands([words])[0]

    def answers(self, commands: Sequence[Sequence[Any]]) -> list[Any]:
        """The answers to plain commands, errors of the server's among them. Raises what the driver raises."""
        return self._exchange(self.connection(), commands)

    def commands(self, commands: Sequence[Sequence[Any]], *, on: Connection = None) -> list[Any]:
        """Plain commands in one round trip, repeated once on a fresh connection if a kept one had gone stale.

        `on`: once, and only on this connection, which holds a WATCH.
        """
        for is_last in (False, True) if on is None else (True,):
            try:
                if on is not None and self.connection() is not on:
                    raise redis.ConnectionError("the connection was lost between two commands")
                replies = self._exchange(self.connection(), commands)
                break
            except (redis.RedisError, OSError) as error:
                self.close()
                if is_last:
                    raise translate(error, self.endpoint.name) from error
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
