"""What an append or an ack on the wire says, for models of the server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import orjson


def arrivals(args: Sequence[str]) -> tuple[str, bool, list[list[str]], list[str]]:
    """What the arguments of an append say: what a conflict does, whether it is a dry run, each message's words, and the
    envelopes.
    """
    on_conflict, dry_run, text, *rest = args
    if not text:
        return on_conflict, dry_run == "1", [rest[1:4]], rest[:1]
    flat, dues, _ = orjson.loads(text)
    words = [flat[at : at + 3] for at in range(0, len(flat), 3)]
    for position, due in zip(dues[::2], dues[1::2], strict=True):
        words[position - 1].append(due)
    return on_conflict, dry_run == "1", words, rest[: len(words)]


def acknowledgements(words: str) -> Iterator[tuple[int, str, str, str, str, list[str]]]:
    """Of each entry of an ack: position from 1, group, token, what then, watermark, members."""
    *columns, members = orjson.loads(words)
    at = 0
    entries: list[Any] = [*zip(*columns, strict=True)]
    for position, (group, token, then, mark, _late, count) in enumerate(entries, 1):
        yield position, group, token, then, mark, members[at : at + count]
        at += count
