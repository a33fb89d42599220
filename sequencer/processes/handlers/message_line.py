"""A message as one line of JSON, as a command reads it and as `--print` shows it."""

from __future__ import annotations

from typing import Any

import orjson

from ...values.message import Message


def message_line(message: Message) -> bytes:
    """The message as one JSON line: queue group id score attempt token appended_at body, and headers if it has any."""
    fields: dict[str, Any] = {
        "queue": message.queue,
        "group": message.group,
        "id": message.id,
        "score": message.score,
        "attempt": message.attempt,
        "token": message.token,
        "appended_at": message.appended_at,
        "body": message.body,
    }
    if message.headers:
        fields["headers"] = message.headers
    return orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)
