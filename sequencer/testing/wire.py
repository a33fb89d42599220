"""Between the library and its connection: sees each command before it is sent and each reply before it is taken.

All I/O of a client goes through connections with six methods. A `Wire` has the same six in front of a real connection,
or of one of fakeredis. What is built on it drops, delays, repeats, kills, or gives scripts a time of its own, while all
code above it and the server below are the real ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import redis

from ..calls import source
from ..net.endpoint import Connection, Endpoint

Words = tuple[Any, ...]
"""One command."""


@cache
def script_names() -> dict[str, str]:
    """Digest and source of each script -> its name."""
    names = [path.stem for path in source.LUA.glob("*.lua")]
    by_sha = {source.script_sha(name): name for name in names}
    return by_sha | {source.script_source(name): name for name in names}


def name_of(words: Sequence[Any]) -> str:
    """What a command does: the script's name in lower case for one of ours, else the command's in upper case."""
    command = str(words[0]).upper()
    if command in ("EVAL", "EVALSHA"):
        return script_names().get(_text(words[1]), command)
    return command


def at_time(words: Words, now_us: int) -> Words:
    """The command as if the server's clock showed `now_us`; only our scripts have a clock to set."""
    is_open = name_of(words).islower() and words[-2] in ("", b"")
    return (*words[:-2], str(now_us), words[-1]) if is_open else words


def _text(word: Any) -> str:
    return word.decode() if isinstance(word, bytes) else str(word)


class Wire:
    """Passes everything on, as it is; override `sending` and `received`."""

    def __init__(self, connection: Connection) -> None:
        self.inner = connection

    def sending(self, commands: list[Words]) -> list[Words]:
        """What is really sent for these commands, as many; or raise what the caller of the connection shall see."""
        return commands

    def received(self, reply: Any) -> Any:
        """What the caller gets for this reply, an error of the server's included; or raise a lost connection."""
        return reply

    def connect(self) -> None:
        self.inner.connect()

    def disconnect(self, *_: Any) -> None:
        self.inner.disconnect()

    def send_command(self, *words: Any, **_: Any) -> None:
        (command,) = self.sending([words])
        self.inner.send_command(*command, check_health=False)

    def pack_commands(self, commands: Sequence[Words]) -> list[Words]:
        return [tuple(words) for words in commands]

    def send_packed_command(self, packed: list[Words], **_: Any) -> None:
        self.inner.send_packed_command(self.inner.pack_commands(self.sending(packed)), check_health=False)

    def read_response(self, *_: Any, **__: Any) -> Any:
        try:
            reply = self.inner.read_response()
        except redis.ResponseError as error:
            reply = error
        reply = self.received(reply)
        if isinstance(reply, redis.ResponseError):
            raise reply
        return reply

    def can_read(self, timeout: float = 0) -> bool:
        return bool(self.inner.can_read(timeout))


def wired(endpoint: Endpoint, wrap: Callable[[Connection], Connection]) -> Endpoint:
    """The endpoint with each of its connections in the hands of `wrap`; give it to `Sequencer(queue, redis=...)`."""
    return Endpoint(lambda: wrap(endpoint.make()), endpoint.name, endpoint.url)
