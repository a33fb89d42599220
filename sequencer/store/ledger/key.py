"""The key of a step, under which a provider knows a repeat."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Any
from urllib.parse import quote

from ..group import encode_group
from .entries import Entry

MAX_KEY = 200
"""Characters; providers take 255."""
KEY_START, KEY_DIGEST = 100, 32
"""Of a longer one: its first characters, and hex digits of its SHA-256."""


def step_key(queue: str, group: str | Sequence[Any], message_id: str, stamp: int, entry: Entry) -> str:
    """What a step hands to a provider, so that a repeat is known as one: printable ASCII, at most 200 characters.

    `group`: encoded, or its parts. `stamp`: that of the ledger. After `--again` the step has another key.
    """
    again = f"#{entry.turn}" if entry.turn > 1 else ""
    start = _start(queue, group if isinstance(group, str) else encode_group(group), message_id, stamp)
    key = f"{start}/{_quoted(entry.name)}{again}"
    if len(key) <= MAX_KEY:
        return key
    return f"{key[:KEY_START]}~{sha256(key.encode()).hexdigest()[:KEY_DIGEST]}"


@lru_cache(maxsize=16)
def _start(queue: str, encoded: str, message_id: str, stamp: int) -> str:
    """What the keys of all steps of a message begin with."""
    return "/".join([*map(_quoted, (queue, encoded, message_id)), f"{stamp:016d}"])


def _quoted(part: str) -> str:
    return quote(part, safe="", errors="surrogateescape")
