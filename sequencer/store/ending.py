"""How a message ended, as history keeps it: its field is the encoded group, a newline and the id. Pure.

The first line is a letter for the outcome, and after it hexadecimal numbers, with blanks between them: attempts; when
the handler began, in ms since 1970; how long the message had waited by then, in ms; how long the handler ran, in ms.
Without the last one no run of the handler is known, and the time is that of the end. Behind that, each on a line of its
own and as far as there is something to say: the consumer, the kind, a note. Numbers of base 36 would save three of
some fifty bytes, and take a consumer six times as long.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from ..values.history import Outcome
from ..values.message import Message
from .record import STAMP_DIGITS
from .replies import text
from .text import cut_text

LETTERS: dict[str, Outcome] = {
    "f": "finished",
    "p": "failed",
    "s": "skipped",
    "d": "dropped",
    "c": "cancelled",
    "r": "replaced",
    "u": "purged",
    "w": "swept",
}
"""Letter -> outcome; `p` is for parts of a message that failed, and did not hold it."""
PADDING = ""
"""The field with which a bucket begins; it is none of a message."""
NOTE_BYTES = 512
_LINE_ENDS = re.compile(r"[\x00-\x1f\x7f]")


class Ending(NamedTuple):
    """How one message ended; times in ms since 1970 by the server's clock."""

    outcome: Outcome
    attempts: int
    appended_ms: int
    began_ms: int | None
    """When its handler began for the last time, where that is known."""
    ended_ms: int
    consumer: str
    kind: str
    note: str


class Remark(NamedTuple):
    """What a consumer knows of a message besides times and attempts."""

    kind: str = ""
    note: str = ""
    """At most NOTE_BYTES are kept."""
    has_failures: bool = False
    """Whether parts of it failed that need not succeed."""
    attempts: int = 0
    """The most of a part of it, which its record does not count."""


PLAIN = Remark()


def all_handled(
    messages: Sequence[Message], times: Sequence[tuple[float, float]], ahead_us: float, consumer: str
) -> list[str]:
    """What history says of messages of which there is nothing besides to be said. `times`: when their handlers began
    and ended, by a clock that the server's is ahead of. As `handled`, in a third of its time: quick handlers begin many
    messages within one ms.
    """
    found, ahead_ms, last_ms, last_attempts, head, at_once = [], ahead_us / 1000, -1, -1, "", f" 0\n{consumer}"
    for message, (began, ended) in zip(messages, times, strict=True):
        began_ms, attempts = int(began * 1000.0 + ahead_ms), message.attempt
        if began_ms != last_ms or attempts != last_attempts:
            head, last_ms, last_attempts = f"f{attempts:x} {began_ms:x} ", began_ms, attempts
        took_ms, waited_ms = int(ended * 1000.0 + ahead_ms) - began_ms, began_ms - message.stamp // 1000
        tail = f" {took_ms:x}\n{consumer}" if took_ms else at_once
        found.append(f"{head}{waited_ms if waited_ms > 0 else 0:x}{tail}")
    return found


def handled(
    attempts: int, stamp_us: int, began_us: float, ended_us: float, consumer: str, remark: Remark = PLAIN
) -> str:
    """What history says of a message whose handler came to its end. A busy consumer makes one a message. With another
    letter before it, that of one that was given up.
    """
    began_ms = int(began_us) // 1000
    waited_ms, took_ms = began_ms - stamp_us // 1000, int(ended_us) // 1000 - began_ms
    numbers = f"{attempts:x} {began_ms:x} {max(0, waited_ms):x} {max(0, took_ms):x}"
    if remark is PLAIN:
        return f"f{numbers}\n{consumer}"
    note = cut_text(remark.note, NOTE_BYTES)
    rest = "\n".join([consumer, _LINE_ENDS.sub(" ", remark.kind), _LINE_ENDS.sub(" ", note)])
    return f"{'p' if remark.has_failures else 'f'}{numbers}\n{rest}"


def decode_ending(value: bytes) -> Ending:
    """Raises ValueError for what no client of ours wrote."""
    first, *rest = text(value).split("\n", 3)
    consumer, kind, note = (*rest, "", "", "")[:3]
    letter, (attempts, at, waited, *took) = first[:1], [int(word, 16) for word in first[1:].split(" ")]
    if letter not in LETTERS or len(took) > 1:
        raise ValueError
    began = at if took else None
    return Ending(LETTERS[letter], attempts, at - waited, began, at + sum(took), consumer.rstrip(" "), kind, note)


def field_of(group: str, message_id: str) -> str:
    """The field of a message; the group is encoded."""
    return f"{group}\n{message_id}"


def parts_of(field: str) -> tuple[str, str]:
    """Encoded group and id."""
    group, _, message_id = field.partition("\n")
    return group, message_id


def bucket_began_us(bucket: str) -> int:
    """When a bucket began: it is named by that. 0 for a name that no client of ours wrote."""
    return int(bucket) if bucket.isdecimal() and len(bucket) == STAMP_DIGITS else 0
