"""How plain commands answer: words in pairs, bytes that are text, times, pages of a scan. Pure.

What others wrote into our keys may not be readable: that is a DataError, raised by `Reading`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ..errors import DataError, SequencerError


class Reading:
    """What can't be read of the server's data, since others wrote it, is a DataError. Ours pass, and so do signals.

    It goes around the reading of a reply, never around a whole operation. A class: every batch goes through one, and a
    generator would cost it ten times as much.
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: Any, error: BaseException | None, _trace: Any) -> None:
        unread = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError)
        if isinstance(error, unread) and not isinstance(error, SequencerError):
            said = f"{type(error).__name__}: {str(error)[:200]}"
            raise DataError("foreign_data", server=self.name, error=said) from error


def text(word: bytes) -> str:
    """A name or an id; bytes that are not UTF-8 come as surrogates, and go back as they were."""
    return word.decode("utf-8", "surrogateescape")


def texts(words: Iterable[bytes]) -> list[str]:
    """Names or ids."""
    return [text(word) for word in words]


def pairs(words: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    """The answer to HGETALL, to WITHSCORES, to a page of HSCAN or ZSCAN: field and value by turns."""
    return zip(words[::2], words[1::2], strict=True)


def scored(words: Sequence[bytes]) -> list[tuple[bytes, float]]:
    """The answer to a range WITHSCORES: member and score."""
    return [(member, float(score)) for member, score in pairs(words)]


def micros(reply: Sequence[bytes]) -> int:
    """The answer to TIME, in us."""
    seconds, rest = reply
    return int(seconds) * 1_000_000 + int(rest)


def scanned(reply: Sequence[Any]) -> tuple[bytes | None, list[bytes]]:
    """A page of SCAN, HSCAN or ZSCAN: where the next one begins, None after the last; and its words."""
    cursor, words = reply
    return (cursor if int(cursor) else None), words


def field_texts(reply: Sequence[bytes]) -> dict[str, str]:
    """The answer to HGETALL of a hash of ours."""
    return {name.decode(): value.decode() for name, value in pairs(reply)}
