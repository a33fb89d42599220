"""Loads lua/*.lua and runs calls on a connection: EVAL once, then EVALSHA; one round trip for many calls."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Sequence
from functools import cache
from hashlib import sha1
from pathlib import Path
from typing import Any, TypeVar

import redis

from .calls import Call
from .connection import Connection, Endpoint, reading, translate
from .errors import ServerUnavailable

T = TypeVar("T")

TRIES = 3
"""How often a repeatable call is sent before its outcome is given up as unknown."""
RETRY_DELAY_S = 0.05


_PART = re.compile(r"^--\+ (\w+)\n", re.MULTILINE)
_CALLED = re.compile(r"call\('([A-Z]+)'")
_UNASKED = {"TIME"}
"""It changes nothing."""


@cache
def script_source(name: str) -> str:
    """The text of `lua/NAME.lua`, with the part `lua/_PART.lua` in the place of each line `--+ PART`.

    Before its first statement stands the part `rights`, with the commands that the whole may call.
    """
    text = _PART.sub(lambda found: _read(f"_{found[1]}"), _read(name))
    names = " ".join(sorted(commands_in(text) - _UNASKED))
    return text.replace("\nlocal ", "\n" + _read("_rights").replace("COMMANDS", names) + "local ", 1)


def commands_in(source: str) -> set[str]:
    """The commands that a script may call, in capitals."""
    return set(_CALLED.findall(source))


def _read(name: str) -> str:
    return (Path(__file__).parent / "lua" / f"{name}.lua").read_text(encoding="utf-8")


@cache
def script_sha(name: str) -> str:
    return sha1(script_source(name).encode(), usedforsecurity=False).hexdigest()


def eval_command(call: Call[Any]) -> tuple[Any, ...]:
    """The call as an EVAL that carries its script: for MULTI/EXEC, where NOSCRIPT could not be mended."""
    return ("EVAL", script_source(call.script), len(call.keys), *call.keys, *call.args)


def _evalsha(call: Call[Any]) -> tuple[Any, ...]:
    return ("EVALSHA", script_sha(call.script), len(call.keys), *call.keys, *call.args)


class Link:
    """One connection, made when first used and again after an error. Not for two threads at once."""

    def __init__(self, endpoint: Endpoint, on_connect: Callable[[Link], None] | None = None) -> None:
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
            self._connection = self.endpoint.connect()
            self._known = set()
            if self._on_connect:
                look, self._on_connect = self._on_connect, None  # what it sends must not begin it again
                try:
                    look(self)
                except BaseException:
                    self.close()
                    raise
                finally:
                    self._on_connect = look
        return self._connection

    def _command(self, call: Call[Any]) -> tuple[Any, ...]:
        """EVALSHA, but EVAL the first time on a connection: after a restart or failover the server lacks the script,
        and one that is sent again alone runs after the other calls of its batch.
        """
        if call.script in self._known:
            return _evalsha(call)
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
    ) -> list[Any]:
        """Send all calls at once and return their parsed replies.

        Calls that are all repeatable are sent up to `TRIES` times. `is_atomic` puts them into one MULTI/EXEC, which
        Redis refuses as a whole at its maxmemory; `in_order` sends each with its script. Without either, a call whose
        script the server has lost runs after the others. `wait` (replicas, ms) sends WAIT behind them; see `confirmed`.

        Raises ServerUnavailable (its `maybe_sent` says whether the calls may have run), ServerNotUsable, QueueFull,
        DataError.
        """
        tries = TRIES if all(call.repeatable for call in calls) else 1
        maybe_sent = self.is_repeat = False
        while True:
            tries -= 1
            self.is_repeat, is_sent = maybe_sent, False
            try:
                connection = self.connection()
                is_sent = True
                return self._run_once(connection, calls, is_atomic, in_order, wait)
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

    def _run_once(
        self,
        connection: Connection,
        calls: Sequence[Call[Any]],
        is_atomic: bool,
        in_order: bool,
        wait: tuple[int, int] | None,
    ) -> list[Any]:
        waits = [("WAIT", *wait)] if wait else []
        confirmed: list[Any] = []
        if is_atomic and len(calls) > 1:
            commands = [("MULTI",), *[eval_command(call) for call in calls], ("EXEC",)]
            answers = self._exchange(connection, commands + waits)
            replies, *confirmed = answers[len(calls) + 1 :]
            if isinstance(replies, redis.exceptions.ExecAbortError):  # the reason is the answer to what was refused
                replies = next((answer for answer in answers if isinstance(answer, Exception)), replies)
        else:
            make = eval_command if in_order else self._command
            replies = self._exchange(connection, [make(call) for call in calls] + waits)
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
        with reading(self.endpoint.name):
            return [call.parse(reply) for call, reply in zip(calls, replies, strict=True)]

    def command(self, *words: Any) -> Any:
        """One plain command. Raises as `run` does, without repeats."""
        return self.commands([words])[0]

    def answers(self, commands: Sequence[Sequence[Any]]) -> list[Any]:
        """The answers to plain commands, errors of the server's among them. Raises what the driver raises."""
        return self._exchange(self.connection(), commands)

    def commands(self, commands: Sequence[Sequence[Any]]) -> list[Any]:
        """Plain commands in one round trip, repeated once on a fresh connection if a kept one had gone stale."""
        for is_last in (False, True):
            try:
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

    def _exchange(self, connection: Connection, commands: Sequence[Sequence[Any]]) -> list[Any]:
        try:
            try:
                _send(connection, commands)
            except UnicodeEncodeError:  # hiredis packs strictly, and nothing was sent yet
                _send(connection, [[_escaped(word) for word in words] for words in commands])
            replies: list[Any] = []
            for _ in commands:
                try:
                    replies.append(connection.read_response())
                except redis.ResponseError as error:
                    replies.append(error)
            return replies
        except BaseException:
            # An answer may still be on its way: this connection would give it to the next question.
            self.close()
            raise


def _send(connection: Connection, commands: Sequence[Sequence[Any]]) -> None:
    if len(commands) == 1:
        connection.send_command(*commands[0], check_health=False)
    else:
        connection.send_packed_command(connection.pack_commands(commands), check_health=False)


def _escaped(word: Any) -> Any:
    """Names of others that are not UTF-8 go back to the server as they came."""
    return word.encode("utf-8", "surrogateescape") if isinstance(word, str) else word


class Links:
    """Links for the threads of one client: taken, used, put back. The last one back is taken first, while warm."""

    def __init__(self, endpoint: Endpoint, on_connect: Callable[[Link], None] | None = None) -> None:
        self.endpoint = endpoint
        self._on_connect = on_connect
        self._idle: list[Link] = []
        self._lock = threading.Lock()
        self._is_closed = False
        self._pid = os.getpid()

    def take(self) -> Link:
        if self._pid != os.getpid():
            # A fork shares its parent's sockets: leave them alone, and start with none.
            self._pid, self._idle, self._lock = os.getpid(), [], threading.Lock()
        with self._lock:
            return self._idle.pop() if self._idle else Link(self.endpoint, self._on_connect)

    def put(self, link: Link) -> None:
        with self._lock:
            if not self._is_closed:
                self._idle.append(link)
                return
        link.close()

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for link in idle:
            link.close()
