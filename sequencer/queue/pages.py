"""Much that is read or changed in small parts, so that the server is never blocked, nor faster than a caller wants."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, TypeVar

from ..calls.net_protocol import Net, Reader
from ..store.keys import ShardKeys
from ..store.replies import Reading, scanned

T = TypeVar("T")
Pages = list[tuple[ShardKeys, Sequence[T]]]


def pages_of(by_shard: Iterable[tuple[ShardKeys, Sequence[T]]], size: int, rate: float | None = None) -> Pages[T]:
    """What goes into one call each: at a given rate at most a tenth of a second's worth."""
    size = size if rate is None else max(1, min(size, int(rate / 10)))
    return [(keys, some[first : first + size]) for keys, some in by_shard for first in range(0, len(some), size)]


async def paced(net: Net, pages: Pages[T], rate: float | None) -> AsyncIterator[tuple[ShardKeys, Sequence[T]]]:
    """One page after the other, each when the rate (items a second) allows it."""
    began, sent = await net.now(), 0
    for keys, some in pages:
        ahead_s = began + sent / rate - await net.now() if rate else 0.0
        if ahead_s > 0:
            await net.sleep(ahead_s)
        yield keys, some
        sent += len(some)


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
