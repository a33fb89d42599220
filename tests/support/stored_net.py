"""A net that answers reads from dictionaries, as a server would, while others change them: for tests of lists."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from sequencer.calls.net_protocol import Command

NOW = 1_700_000_100_000_000


def _bytes(word: Any) -> bytes:
    return word if isinstance(word, bytes) else str(word).encode("utf-8", "surrogateescape")


def _within(low: str, high: str, score: float) -> bool:
    def edge(word: str) -> float:
        return float(word.removeprefix("("))

    is_above = score > edge(low) if low.startswith("(") else score >= edge(low)
    return is_above and (score < edge(high) if high.startswith("(") else score <= edge(high))


class StoredNet:
    """`between` is called before each round trip."""

    name, is_cluster = "stored", False

    def __init__(self, between: Callable[[], object] = lambda: None) -> None:
        self.sorted: dict[str, dict[bytes, float]] = defaultdict(dict)
        self.hashes: dict[str, dict[bytes, bytes]] = defaultdict(dict)
        self.sets: dict[str, set[bytes]] = defaultdict(set)
        self.clients, self.between, self.asked = b"", between, list[Command]()

    async def nodes(self) -> list[Any]:
        return [self]

    async def read(self, commands: Sequence[Command]) -> list[Any]:
        self.between()
        self.asked += commands
        assert len(self.asked) < 200_000, "the reading ends"
        return [getattr(self, name.lower())(*words) for name, *words in commands]

    answers = read

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[StoredNet]:
        yield self

    def time(self) -> list[bytes]:
        return [b"%d" % (NOW // 10**6), b"0"]

    def client(self, _list: str) -> bytes:
        return self.clients

    def _ordered(self, key: str) -> list[tuple[float, bytes]]:
        return sorted((score, member) for member, score in self.sorted[key].items())

    def zcard(self, key: str) -> int:
        return len(self.sorted[key])

    def zcount(self, key: str, low: str, high: str) -> int:
        return sum(_within(low, high, score) for score in self.sorted[key].values())

    def zrank(self, key: str, member: bytes) -> int | None:
        score = self.sorted[key].get(member)
        return None if score is None else self._ordered(key).index((score, member))

    def zrange(self, key: str, start: int, end: int, *_with_scores: str) -> list[bytes]:
        page = self._ordered(key)[start : None if end == -1 else end + 1]
        return [word for score, member in page for word in (member, b"inf" if score == math.inf else b"%.17g" % score)]

    def zmscore(self, key: str, *members: Any) -> list[bytes | None]:
        scores = [self.sorted[key].get(_bytes(member)) for member in members]
        return [None if score is None else b"%.17g" % score for score in scores]

    def hget(self, key: str, field: Any) -> bytes | None:
        return self.hashes[key].get(_bytes(field))

    def hmget(self, key: str, *fields: Any) -> list[bytes | None]:
        return [self.hget(key, field) for field in fields]

    def hscan(self, key: str, *_words: Any) -> list[Any]:
        return [b"0", [word for pair in self.hashes[key].items() for word in pair]]

    def smismember(self, key: str, *members: bytes) -> list[int]:
        return [int(member in self.sets[key]) for member in members]

    def sscan(self, key: str, *_words: Any) -> list[Any]:
        return [b"0", [*self.sets[key]]]
