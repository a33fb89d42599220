"""The queue that is examined, and how."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..net.link import Link
from ..store.keys import ShardKeys
from ..store.replies import pairs, scanned
from ..texts.findings import Finding, finding

PAGE = 500
"""Names read by one command."""


@dataclass(frozen=True, slots=True)
class Scope:
    """A queue under examination."""

    link: Link
    namespace: str
    queue: str
    shards: Sequence[ShardKeys]
    repair: bool
    most: int
    """How many findings of one code are listed; the rest is counted."""

    def found(self, code: str, repaired: bool = False, /, **fields: Any) -> Finding:
        """A finding of this queue."""
        return finding(code, repaired, queue=self.queue, namespace=self.namespace, **fields)

    def cut(self, findings: Iterable[Finding]) -> Iterator[Finding]:
        """At most `most` of each code, and how many more there are."""
        counts = Counter[tuple[str, bool]]()
        for one in findings:
            counts[one.code, one.repaired] += 1
            if counts[one.code, one.repaired] <= self.most:
                yield one
        for (code, repaired), count in counts.items():
            if count > self.most:
                yield self.found("more", repaired, of=code, count=count - self.most)

    def pages(self, command: str, key: str) -> Iterator[list[tuple[bytes, bytes]]]:
        """The pairs that HSCAN or ZSCAN finds in a key, page by page."""
        cursor: bytes | None = b"0"
        while cursor is not None:
            cursor, words = scanned(self.link.command(command, key, cursor, "COUNT", PAGE))
            yield list(pairs(words))
