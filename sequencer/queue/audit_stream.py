"""Reads the streams in which consumers recorded what they handled, a page at a time, and proves them. Operations over
a net.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

from ..calls.net_protocol import Net
from ..errors import DataError
from ..store.keys import ShardKeys
from ..store.replies import Reading, pairs, texts
from ..values.views import AuditReport
from .audit import AuditRecord, Prover
from .session import Session

PAGE = 1000


async def audit(session: Session) -> AuditReport:
    """What the runs that consumers with `audit=True` recorded show of order. Raises ServerError, DataError."""
    return await prove_shards(session.net, await session.shards())


async def prove_shards(net: Net, shards: Iterable[ShardKeys], *, page: int = PAGE) -> AuditReport:
    """What the audit streams of these shards show, each up to its end now. Raises ServerError, and DataError for an
    entry that no consumer wrote.
    """
    streams: list[tuple[str, bytes]] = []
    is_trimmed = False
    for stream in (keys.audit for keys in shards):
        if not (await net.read([("EXISTS", stream)]))[0]:
            continue
        (words,) = await net.read([("XINFO", "STREAM", stream)])
        with Reading(net.name):
            facts = dict(pairs(words))
            streams.append((stream, facts[b"last-generated-id"]))
            is_trimmed = is_trimmed or facts[b"entries-added"] > facts[b"length"]
    prover = Prover(is_trimmed)
    for stream, last in streams:
        async for record in read_records(net, stream, last, page):
            prover.add(record)
    return prover.report()


async def read_records(net: Net, stream: str, last: bytes, page: int = PAGE) -> AsyncIterator[AuditRecord]:
    """The records of one audit stream up to this entry, a page at a time: the server is never blocked."""
    start = b"-"
    while True:
        (entries,) = await net.read([("XRANGE", stream, start, last, "COUNT", page)])
        for name, words in entries:
            with Reading(net.name):
                record = _parse(stream, name.decode(), words)
            yield record
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
        raise DataError("audit_entry_foreign", entry=name, stream=stream, error=str(error)) from error
