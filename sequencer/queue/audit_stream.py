"""Reads the streams in which consumers recorded what they handled, a page at a time, and proves them.

It asks over a blocking link: this is no coroutine as the other operations are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from ..errors import DataError
from ..net.link import Link
from ..store.keys import LaneKeys
from ..store.replies import pairs, texts
from ..values.views import AuditReport
from .audit import AuditRecord, prove

PAGE = 1000


def prove_lanes(link: Link, lanes: Iterable[LaneKeys], *, page: int = PAGE) -> AuditReport:
    """What the audit streams of these lanes show, each up to its end now. Raises ServerError, and DataError for an
    entry that no consumer wrote.
    """
    streams: list[tuple[str, bytes]] = []
    is_trimmed: bool | None = False
    for stream in (keys.audit for keys in lanes if link.command("EXISTS", keys.audit)):
        words = link.command("XINFO", "STREAM", stream)
        facts = dict(pairs(words))
        streams.append((stream, facts[b"last-generated-id"]))
        added = facts.get(b"entries-added")
        is_trimmed = is_trimmed or (None if added is None else added > facts[b"length"])
    records = (read_records(link, stream, last, page) for stream, last in streams)
    return prove(chain.from_iterable(records), is_trimmed=is_trimmed)


def read_records(link: Link, stream: str, last: bytes, page: int = PAGE) -> Iterator[AuditRecord]:
    """The records of one audit stream up to this entry, a page at a time: the server is never blocked."""
    start = b"-"
    while True:
        entries = link.command("XRANGE", stream, start, last, "COUNT", page)
        for name, words in entries:
            yield _parse(stream, name.decode(), words)
        if len(entries) < page:
            return
        start = b"(" + entries[-1][0]


def _parse(stream: str, name: str, words: list[bytes]) -> AuditRecord:
    found = dict(pairs(texts(words)))
    try:
        stamp, token, began, ended = (int(found[key]) for key in ("stamp", "token", "began", "ended"))
        redriven, refused = (found[key] == "1" for key in ("redriven", "refused"))
        score, at_ms = float(found["score"]), int(name.partition("-")[0])
        return AuditRecord(found["group"], found["id"], score, stamp, token, began, ended, redriven, refused, at_ms)
    except (KeyError, ValueError) as error:
        what = f"has no field {error}" if isinstance(error, KeyError) else f"holds no number: {error}"
        raise DataError(f"entry {name} of {stream} {what}; no consumer wrote it, remove it with XDEL") from error
