"""How a group becomes text, part of a key, and back; and its shard. No two groups share one text."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote
from zlib import crc32

from ..errors import InvalidGroup
from .text import checked_text

MAX_GROUP_BYTES = 512
_UNSAFE = re.compile(r"[%:\x00-\x1f\x7f]")


def _part(part: Any) -> str:
    kind = type(part)
    if kind is int and part.bit_length() < 64:
        return str(part)
    if kind is not str or not part or not part.isascii():
        part = checked_text("group", part, MAX_GROUP_BYTES, InvalidGroup)
    return part if part.isalnum() else _UNSAFE.sub(lambda found: f"%{ord(found[0]):02X}", part)


def encode_group(group: Any) -> str:
    """The text of a group inside a key: parts joined by ':', with ':', '%' and control characters as %XX.

    So `["a:b", "c"]` and `["a", "b:c"]` differ, and `1002` equals `"1002"`. A single str, int or UUID is a group of one
    part. Raises InvalidGroup.
    """
    parts = group if isinstance(group, list | tuple) else (group,)
    text = ":".join([_part(part) for part in parts])
    if not 0 < len(text if text.isascii() else text.encode()) <= MAX_GROUP_BYTES:
        raise InvalidGroup("identifier_invalid", name="group", value=group, most=MAX_GROUP_BYTES)
    return text


def decode_group(text: str) -> tuple[str, ...]:
    """The parts of an encoded group, each as text."""
    parts = text.split(":")
    return tuple([unquote(part) for part in parts]) if "%" in text else tuple(parts)


def shard_of(group: str, shards: int) -> int:
    """Which shard an encoded group belongs to: the same in every process and version (CRC-32, not `hash`)."""
    return crc32(group.encode()) % shards if shards > 1 else 0
