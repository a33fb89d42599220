"""Whether a server still holds a message, wherever a system may have put it: in a name of a key, or in a value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sequencer.net.endpoint import Endpoint
from sequencer.net.link import Link

READ: dict[bytes, tuple[str, ...]] = {
    b"string": ("GET",),
    b"list": ("LRANGE", "0", "-1"),
    b"set": ("SMEMBERS",),
    b"zset": ("ZRANGE", "0", "-1"),
    b"hash": ("HGETALL",),
    b"stream": ("XRANGE", "-", "+"),
}


def is_held(url: str, message_id: str) -> bool:
    """Raises ServerError."""
    wanted, link = message_id.encode(), Link(Endpoint.from_url(url))
    try:
        for key in link.command("KEYS", "*"):
            name, *rest = READ[link.command("TYPE", key)]
            if wanted in key or any(wanted in piece for piece in pieces(link.command(name, key, *rest))):
                return True
        return False
    finally:
        link.close()


def pieces(found: Any) -> Iterator[bytes]:
    """All strings of an answer, however deep. Any: an answer of any command."""
    if isinstance(found, bytes):
        yield found
    elif isinstance(found, dict):
        for pair in found.items():
            yield from pieces(list(pair))
    elif isinstance(found, list | tuple | set):
        for one in found:
            yield from pieces(one)
