"""A large key read in small parts, so that the server is never blocked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from ..calls.net_protocol import Reader
from ..store.replies import Reading, scanned


async def scan(
    net: Reader, command: str, *key: str, count: int, options: tuple[Any, ...] = ()
) -> AsyncIterator[list[bytes]]:
    """What SCAN, HSCAN or ZSCAN finds, page by page. What moves about meanwhile may come twice."""
    cursor: bytes | None = b"0"
    while cursor is not None:
        (page,) = await net.read([(command, *key, cursor, *options, "COUNT", count)])
        with Reading(net.name):
            cursor, words = scanned(page)
        yield words
