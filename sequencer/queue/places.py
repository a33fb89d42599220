"""Pages of sorted sets by place: who stays comes once, while others come and go. Operations over a net.

A place is a score and a member, of which nothing need be left. What stands behind it is found by counting, and among
equal scores by halving. An offset would not do: each that goes before it moves the rest.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote, unquote_to_bytes

from ..calls.net_protocol import Command, Reader
from ..errors import ConfigurationError
from ..store.keys import ShardKeys
from ..store.replies import scored
from ..values.views import Page
from .pages import read

MAX_PAGE = 500
"""The most that one page may hold."""
LOOKED = 2000
"""Most entries read for one page; where fewer fit, the page is short."""
SLACK = 10
"""Members read on both sides of a page, for those that come and go while its rank is on its way."""
T = TypeVar("T")
Place = tuple[float, bytes]
FIRST: Place = (-math.inf, b"")


class Row(NamedTuple):
    """A member of a sorted set that each shard has."""

    score: float
    member: bytes
    keys: ShardKeys

    @property
    def place(self) -> Place:
        return self.score, self.member

    @property
    def after(self) -> str:
        """Its place as text, which neither a shell nor an address changes."""
        return f"{self.score:.17g},{quote(self.member, safe=':')}"


def place_of(after: str | None, first: Place) -> Place:
    """The place of a text. Raises ConfigurationError."""
    if after is None:
        return first
    score, comma, member = after.partition(",") if isinstance(after, str) else ("", "", "")
    try:
        place = float(score), unquote_to_bytes(member)
    except ValueError:
        place = math.nan, b""
    if not comma or math.isnan(place[0]):
        raise ConfigurationError("place_invalid", value=after)
    return place


async def each(read_page: Callable[..., Awaitable[Page[T]]], limit: int, after: str | None = None) -> AsyncIterator[T]:
    """Those of all pages, at most `limit`, read while they are iterated."""
    while limit:
        page = await read_page(limit=min(MAX_PAGE, limit), after=after)
        for one in page.items:
            yield one
        limit, after = limit - len(page.items), page.after
        if after is None:
            return


def in_shards(rows: Iterable[Row]) -> dict[ShardKeys, list[Row]]:
    found: dict[ShardKeys, list[Row]] = {}
    for row in rows:
        found.setdefault(row.keys, []).append(row)
    return found


async def rows_behind(
    net: Reader, shards: Sequence[ShardKeys], name: str, place: Place, size: int, *, backwards: bool = False
) -> list[Row]:
    """The next rows of all shards behind a place, by score and member; fewer than `size` only at the end."""
    rows = list[Row]()
    for keys in shards:
        rows += [Row(*one, keys) for one in await behind(net, getattr(keys, name), place, size, backwards=backwards)]
    return sorted(rows, key=attrgetter("place"), reverse=backwards)[:size]


async def behind(net: Reader, key: str, place: Place, size: int, *, backwards: bool = False) -> list[Place]:
    """The next of one sorted set. A page counts if it reaches back to its place, so that none is left out."""
    slack = SLACK
    while True:
        rank = await _rank(net, key, place, backwards)
        start, end = (rank - size - slack, rank + slack) if backwards else (rank - slack, rank + size + slack)
        start = max(0, start)
        page = [(at, member) for member, at in await read(net, scored, ("ZRANGE", key, start, end, "WITHSCORES"))]
        has_first, has_last = start == 0, len(page) <= end - start
        if backwards:
            found = [one for one in reversed(page) if one < place]
            is_joined, is_end = has_last or page[-1] >= place, has_first
        else:
            found = [one for one in page if one > place]
            is_joined, is_end = has_first or bool(page and page[0] <= place), has_last
        if is_joined and (is_end or len(found) >= size):
            return found[:size]
        slack *= 10


async def _rank(net: Reader, key: str, place: Place, backwards: bool) -> int:
    """How many stand before a place, and at it unless we go backwards."""
    if place == FIRST:
        return 0
    edge, member = f"{place[0]:.17g}", place[1]
    commands: list[Command] = [
        ("ZCOUNT", key, "-inf", f"({edge}"),
        ("ZCOUNT", key, edge, edge),
        ("ZRANK", key, member),
    ]
    low, ties, rank = await net.read(commands)
    if not member:
        return int(low)
    if rank is not None and low <= rank < low + ties:
        return int(rank) + (not backwards)
    high = low + ties
    while low < high:
        middle = (low + high) // 2
        page: list[Any] = await read(net, scored, ("ZRANGE", key, middle, middle, "WITHSCORES"))
        is_before = bool(page) and (page[0][1], page[0][0]) <= place
        low, high = (middle + 1, high) if is_before else (low, middle)
    return int(low)
