"""Text on its way to scripts and back as JSON, and the failure of a message as it is kept. Pure.

Bytes that are not UTF-8 (others may write an id; no client of ours does) pass through as surrogates, and unharmed.
"""

from __future__ import annotations

from typing import Any

import orjson

from .message import Failure

TRACEBACK_BYTES = 8 * 1024


def dumps_words(words: Any) -> bytes:
    """Nested lists of text as JSON, for a script's `cjson.decode`: one argument, read at C speed on both sides.

    A member with bytes that are not UTF-8 (no client of ours writes one) passes through unharmed.
    """
    try:
        return orjson.dumps(words)
    except TypeError:
        import json

        return json.dumps(words, ensure_ascii=False).encode("utf-8", "surrogateescape")


def loads_words(data: bytes) -> Any:
    """What a script wrote with `cjson.encode`; bytes that are not UTF-8 come as surrogates and go back as they were."""
    try:
        return orjson.loads(data)
    except ValueError:
        import json

        return json.loads(data.decode("utf-8", "surrogateescape"))


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


def _clean(text: str) -> str:
    return text.encode("utf-8", "backslashreplace")[-TRACEBACK_BYTES:].decode("utf-8", "ignore")


def decode_failure(record: bytes) -> tuple[Failure, str]:
    """A failure and the member it belongs to ("" if it says none); foreign bytes give a failure that shows them."""
    try:
        data = loads_words(record)
        failure = Failure(
            id=str(data.get("id", "")),
            type=str(data.get("type", "")),
            message=str(data.get("message", "")),
            traceback=str(data.get("traceback", "")),
            attempt=int(data.get("attempt", 0)),
            at=float(data.get("at", 0)),
            owner=str(data.get("owner", "")),
        )
        return failure, str(data.get("member", ""))
    except (ValueError, TypeError, AttributeError):
        text = record[:200].decode("utf-8", "backslashreplace")
        return Failure("", "Broken", f"unreadable failure record: {text}", "", 0, 0.0, ""), ""
