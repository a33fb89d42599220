"""The failure of a message as it is kept in the server."""

from __future__ import annotations

from typing import Any

from ..values.message import Failure, PastAttempt
from .replies import text
from .text import cut_text, dumps_words, loads_words

TRACEBACK_BYTES = 8 * 1024
ASKING = frozenset({"StepUnknown", "StepResultInvalid"})
"""Types of failures that ask an operator something of a step: without an answer the next attempt asks again."""
LINE_BYTES = 200
"""Of an error in the log, as lua/parts/failure_kept.lua cuts it."""
DIGEST_BYTES = 400
"""More than a failure needs after its traceback: attempt, time and owner."""


def encode_failure(failure: Failure, member: str) -> bytes:
    """The failure of a group's head, with the member it belongs to; error texts are cut to 8 KiB each."""
    return dumps_words(
        {
            "member": member,
            "id": failure.id,
            "type": failure.type,
            "message": _clean(failure.message),
            "traceback": _clean(failure.traceback),
            "attempt": failure.attempt,
            "at": failure.at,
            "owner": failure.owner,
        }
    )


def digest_of(record: bytes) -> str:
    """What tells a failure of a group from every other one: its length, and its end, which says when it was, and where.

    As resume.lua makes it; "" of none.
    """
    return text(b"%d %b" % (len(record), record[-DIGEST_BYTES:])) if record else ""


def _clean(text: str) -> str:
    return text.encode("utf-8", "backslashreplace")[-TRACEBACK_BYTES:].decode("utf-8", "ignore")


def decode_failure(record: bytes) -> tuple[Failure, str]:
    """A failure and the member it belongs to, or ""; foreign bytes give a failure that shows them."""
    try:
        data = loads_words(record or b"{}")
        known: dict[str, Any] = {name: int(data.get(name, 0)) for name in ("attempt", "outages", "missing")}
        known |= {name: str(data.get(name, "")) for name in ("id", "type", "message", "traceback", "owner")}
        failure = Failure(
            **known,
            at=float(data.get("at", 0)),
            missing_since=int(data.get("missing_us", 0)) / 1e6,
            log=tuple(PastAttempt(int(attempt), float(at), str(error)) for attempt, at, error in data.get("log", ())),
        )
        return failure, str(data.get("member", ""))
    except (ValueError, TypeError, AttributeError):
        text = record[:200].decode("utf-8", "backslashreplace")
        return Failure("", "Broken", f"unreadable failure record: {text}", "", 0, 0.0, ""), ""


def error_line(failure: Failure) -> str:
    """Class and text of an error, in one line, cut."""
    return cut_text(f"{failure.type}: {failure.message}".partition("\n")[0], LINE_BYTES)


def is_own_outage(record: bytes) -> bool:
    """Whether it is an outage that is its group's own trouble, as lua/parts/outage/count.lua found."""
    return b',"own":true,' in record[:80]


def log_of(record: bytes) -> tuple[PastAttempt, ...]:
    """What a message failed with: the attempts before, and the last one, which may have counted no attempt."""
    failure = decode_failure(record)[0]
    attempt = 0 if failure.outages or failure.missing else failure.attempt
    return (*failure.log, PastAttempt(attempt, failure.at, error_line(failure)))
