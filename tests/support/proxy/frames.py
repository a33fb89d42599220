"""Where each command and each reply ends in a stream of RESP2 bytes, and the error replies that a server may give.

Nothing is decoded but what a proxy must know: the first two words of a command. A stream of anything else is an error
here, as it is at the server.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

ERRORS: Mapping[str, bytes] = {
    "BUSY": b"-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.\r\n",
    "LOADING": b"-LOADING Redis is loading the dataset in memory\r\n",
    "READONLY": b"-READONLY You can't write against a read only replica.\r\n",
    "OOM": b"-OOM command not allowed when used memory > 'maxmemory'.\r\n",
    "NOSCRIPT": b"-NOSCRIPT No matching script. Please use EVAL.\r\n",
    "MISCONF": b"-MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.\r\n",
    "CLUSTERDOWN": b"-CLUSTERDOWN The cluster is down\r\n",
    "NOPERM": b"-NOPERM User default has no permissions to run the 'evalsha' command\r\n",
    "NOREPLICAS": b"-NOREPLICAS Not enough good replicas to write.\r\n",
    "unknown": b"-ERR something that no client has heard of\r\n",
}
"""What the server says, by name; each stands in place of carrying the command out."""
ABORTED = b"-EXECABORT Transaction discarded because of previous errors.\r\n"
DISCARD = b"*1\r\n$7\r\nDISCARD\r\n"
_BULK, _ARRAY = ord("$"), ord("*")
_LINES = frozenset(b"+-:")


class Request(NamedTuple):
    """One command: where it ends, and its first two words (the second one b"" where there is none)."""

    end: int
    command: bytes
    first: bytes


def read_request(data: bytes, at: int) -> Request | None:
    """The command that begins at `at`, or None while a part of it is still to come. Raises ValueError."""
    find, size_of_all = data.find, len(data)
    line = find(b"\r\n", at)
    if line < 0:
        return None
    if data[at] != _ARRAY:
        raise ValueError(f"{data[at : at + 20]!r} is no command in RESP")
    count, position = int(data[at + 1 : line]), line + 2
    words = [b"", b""]
    for number in range(count):
        line = find(b"\r\n", position)
        if line < 0:
            return None
        start = line + 2
        end = start + int(data[position + 1 : line])
        if number < 2:
            words[number] = data[start:end]
        position = end + 2
        if position > size_of_all:
            return None
    return Request(position, words[0].upper(), words[1])


def end_of_reply(data: bytes, at: int) -> int | None:
    """Where the reply that begins at `at` ends, or None while a part of it is still to come. Raises ValueError."""
    find, size_of_all = data.find, len(data)
    left, position = 1, at
    while left:
        line = find(b"\r\n", position)
        if line < 0:
            return None
        kind, next_line = data[position], line + 2
        if kind == _BULK:
            size = int(data[position + 1 : line])
            next_line += size + 2 if size >= 0 else 0
        elif kind == _ARRAY:
            left += max(0, int(data[position + 1 : line]))
        elif kind not in _LINES:
            raise ValueError(f"{data[position : position + 20]!r} is no reply in RESP2")
        position, left = next_line, left - 1
        if position > size_of_all:
            return None
    return position
