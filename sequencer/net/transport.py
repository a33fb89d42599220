"""Commands over one connection of the driver's: sent together, their answers read in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import redis

from .endpoint import Connection


def receive(connection: Connection, count: int) -> list[Any]:
    """So many answers, errors of the server's among them."""
    replies: list[Any] = []
    for _ in range(count):
        try:
            replies.append(connection.read_response())
        except redis.ResponseError as error:
            replies.append(error)
    return replies


def send(connection: Connection, commands: Sequence[Sequence[Any]]) -> None:
    try:
        _send_once(connection, commands)
    except UnicodeEncodeError:  # hiredis packs strictly, and nothing was sent yet
        _send_once(connection, [[in_utf8(word) for word in words] for words in commands])


def _send_once(connection: Connection, commands: Sequence[Sequence[Any]]) -> None:
    if len(commands) == 1:
        connection.send_command(*commands[0], check_health=False)
    else:
        connection.send_packed_command(connection.pack_commands(commands), check_health=False)


def in_utf8(word: Any) -> Any:
    """Text as bytes. Names of others that are not UTF-8 go back to the server as they came."""
    return word.encode("utf-8", "surrogateescape") if isinstance(word, str) else word
