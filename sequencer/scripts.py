"""Loads lua/*.lua and runs calls on a connection: EVAL once, then EVALSHA; one round trip for many calls."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Sequence
from functools import cache
from hashlib import sha1
from pathlib import Path
from typing import Any, TypeVar

import redis

from .calls import Call
from .connection import Connection, Endpoint, translate
from .errors import ServerUnavailable

T = TypeVar("T")

TRIES = 3
"""How often a repeatable call is sent before its outcome is given up as unknown."""
RETRY_DELAY_S = 0.05


_PART = re.compile(r"^--\+ (\w+)\n", re.MULTILINE)


@cache
def script_source(name: str) -> str:
    """The text of `lua/NAME.lua`, with the part `lua/_PART.lua` in the place of each line `--+ PART`."""
    folder = Path(__file__).parent / "lua"
    text = (folder / f"{name}.lua").read_text(encoding="utf-8")
    return _PART.sub(lambda found: (folder / f"_{found[1]}.lua").read_text(encoding="utf-8"), text)


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

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.is_repeat = False
        """Whether the last `run` sent its calls more than once, so that a first try may have been carried out."""
        self._connection: Connection = None
        self._known: set[str] = set()
        """Scripts that were sent in full on this connection."""

    def connection(self) -> Connection:
        if self._connection is None:
            self._connection = self.endpoint.connect()
            self._known = set()
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

    def run(self, calls: Sequence[Call[Any]], *, is_atomic: bool = False, in_order: bool = False) -> list[Any]:
        """Send all calls at once and return their parsed replies.

        Calls that are all repeatable are sent up to `TRIES` times. `is_atomic` puts them into one MULTI/EXEC, which
        Redis refuses as a whole at its maxmemory; `in_order` sends each with its script. Without either, a call whose
        script the server has lost runs after the others. Raises
        ServerUnavailable (its `maybe_sent` says whether the calls may have run), ServerNotUsable, QueueFull, DataError.
        """
        tries = TRIES if all(call.repeatable for call in calls) else 1
        maybe_sent = self.is_repeat = False
        while True:
            tries -= 1
            self.is_repeat = maybe_sent
            try:
                connection = self.connection()
                maybe_sent = True
                return self._run_once(connection, calls, is_atomic, in_order)
            except (redis.ConnectionError, redis.TimeoutError, OSError) as error:
                self.close()
                failure = translate(error, self.endpoint.name)
                cause: BaseException = error
            except ServerUnavailable as error:
                self.close()
                failure, cause = error, error.__cause__ or error
            if not isinstance(failure, ServerUnavailable) or not tries:
                if isinstance(failure, ServerUnavailable):
                    failure.maybe_sent = maybe_sent
                raise failure from cause
            time.sleep(RETRY_DELAY_S)

    def _run_once(
        self, connection: Connection, calls: Sequence[Call[Any]], is_atomic: bool, in_order: bool
    ) -> list[Any]:
        if is_atomic and len(calls) > 1:
            commands = [("MULTI",), *[eval_command(call) for call in calls], ("EXEC",)]
            replies = self._exchange(connection, commands)[-1]
        else:
            make = eval_command if in_order else self._command
            replies = self._exchange(connection, [make(call) for call in calls])
            missing = [i for i, reply in enumerate(replies) if isinstance(reply, redis.exceptions.NoScriptError)]
            if missing:
                again = self._exchange(connection, [eval_command(calls[i]) for i in missing])
                for i, reply in zip(missing, again, strict=True):
                    replies[i] = reply
        for reply in replies if isinstance(replies, list) else [replies]:
            if isinstance(reply, Exception):
                raise translate(reply, self.endpoint.name) from reply
        return [call.parse(reply) for call, reply in zip(calls, replies, strict=True)]

    def command(self, *words: Any) -> Any:
        """One plain command. Raises as `run` does, without repeats."""
        return self.commands([words])[0]

    def commands(self, commands: Sequence[Sequence[Any]]) -> list[Any]:
        """Plain commands in one round trip, repeated once on a fresh connection if a kept one had gone stale."""
        for is_last in (False, True):
            try:
                replies = self._exchange(self.connection(), commands)
                break
            except (redis.ConnectionError, redis.TimeoutError, OSError) as error:
                self.close()
                if is_last:
                    raise translate(error, self.endpoint.name) from error
        for reply in replies:
            if isinstance(reply, Exception):
                raise translate(reply, self.endpoint.name) from reply
        return replies

    def _exchange(self, connection: Connection, commands: Sequence[Sequence[Any]]) -> list[Any]:
        try:
            if len(commands) == 1:
                connection.send_command(*commands[0], check_health=False)
            else:
                connection.send_packed_command(connection.pack_commands(commands), check_health=False)
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


class Links:
    """Links for the threads of one client: taken, used, put back. The last one back is taken first, while warm."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._idle: list[Link] = []
        self._lock = threading.Lock()
        self._is_closed = False
        self._pid = os.getpid()

    def take(self) -> Link:
        if self._pid != os.getpid():
            # A fork shares its parent's sockets: leave them alone, and start with none.
            self._pid, self._idle, self._lock = os.getpid(), [], threading.Lock()
        with self._lock:
            return self._idle.pop() if self._idle else Link(self.endpoint)

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
