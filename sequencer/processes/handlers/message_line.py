"""A message as one line of JSON, as a command reads it and as print mode shows it."""

from __future__ import annotations

from typing import Any

import orjson

from ...texts.words import json_line
from ...values.message import Message


def message_line(message: Message) -> bytes:
    """The message as one JSON line: queue group id score attempt token appended_at body, and headers if it has any.

    Control characters are escaped, also those that JSON lets through.
    """
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
    line = orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)
    return line if line.isascii() and b"\x7f" not in line else json_line(line.decode()).encode()
