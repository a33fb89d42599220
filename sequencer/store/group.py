"""How a group becomes text, part of a key, and back; and its shard. No two groups share one text."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote
from uuid import UUID
from zlib import crc32

from ..errors import InvalidGroup
from .text import check_length

MAX_GROUP_BYTES = 512
_UNSAFE = re.compile(r"[%:\x00-\x1f\x7f]")


def _escape(match: re.Match[str]) -> str:
    return f"%{ord(match[0]):02X}"


def _part(part: Any) -> str:
    kind = type(part)
    if kind is str:
        if part.isalnum():  # the usual case, without a look for what must be escaped
            return str(part)
        text = part
    elif kind is int and part.bit_length() < 8 * MAX_GROUP_BYTES:
        return str(part)
    elif isinstance(part, int) and part.bit_length() >= 8 * MAX_GROUP_BYTES:
        raise InvalidGroup("text_invalid", name="group", value=part, most=MAX_GROUP_BYTES)
    elif isinstance(part, bool) or not isinstance(part, str | int | UUID):
        raise InvalidGroup("group_type", value=part, type=kind.__name__)
    else:
        text = str(part.value if hasattr(part, "value") else part)
    if not text:
        raise InvalidGroup("group_empty")
    return _UNSAFE.sub(_escape, text)


def encode_group(group: Any) -> str:
    """The text of a group inside a key: parts joined by ':', with ':', '%' and control characters as %XX.

    So `["a:b", "c"]` and `["a", "b:c"]` differ, and `1002` equals `"1002"`. A single str, int or UUID is a group of one
    part. Raises InvalidGroup.
    """
    parts = group if isinstance(group, list | tuple) else (group,)
    text = ":".join([_part(part) for part in parts])
    if not text:
        raise InvalidGroup("group_empty")
    if not text.isascii() or len(text) > MAX_GROUP_BYTES:
        check_length("group", text, MAX_GROUP_BYTES, InvalidGroup)
    return text


def decode_group(text: str) -> tuple[str, ...]:
    """The parts of an encoded group, each as text."""
    parts = text.split(":")
    return tuple([unquote(part) for part in parts]) if "%" in text else tuple(parts)


def shard_of(group: str, shards: int) -> int:
    """Which shard an encoded group belongs to: the same in every process and version (CRC-32, not `hash`)."""
    return crc32(group.encode()) % shards if shards > 1 else 0
