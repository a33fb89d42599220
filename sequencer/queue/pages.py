"""What plain commands answer; and reads and changes in small parts, so that the server is never blocked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from ..calls.net_protocol import Command, Net, Reader
from ..store.keys import ShardKeys
from ..store.replies import Reading, scanned

T = TypeVar("T")
Progress = Callable[[int, int], object]
"""Called after each page: how many were done or left alone so far, and how many there are."""


async def read(net: Reader, of: Callable[..., T], *commands: Command) -> T:
    """What commands answer, sent in one round trip, as `of` reads it. Raises DataError for what others wrote."""
    replies = await net.read(commands)
    with Reading(net.name):
        return of(*replies)


def batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (items[at : at + size] for at in range(0, len(items), size))


async def paced(
    net: Net, by_shard: Iterable[tuple[ShardKeys, Sequence[T]]], size: int, rate: float | None = None
) -> AsyncIterator[tuple[ShardKeys, Sequence[T]]]:
    """What goes into one call each; with a rate (items a second) at most a tenth of a second's worth, in its time."""
    size = size if rate is None else max(1, min(size, int(rate / 10)))
    began, sent = await net.now(), 0
    for keys, items in by_shard:
        for some in batches(items, size):
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
        cursor, words = await read(net, scanned, (command, *key, cursor, *options, "COUNT", count))
        yield words
