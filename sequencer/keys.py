"""Every key name, and how a group becomes part of one. The only Python file that builds a key; scripts make those of a
group from the lane's prefix, and append.lua some of the lane's.

All keys of a lane share the hash tag `{namespace:queue:lane}`, so they live in one slot of a cluster and one
script may touch them all. The group always comes last: whatever it holds, it cannot run into another part.

    {sequencer:orders:0}:schedule       zset    group -> visible-at in us; ahead: leased, backing off, delayed ...;
                                                9e15: paused; inf: parked
    {sequencer:orders:0}:leases         hash    group -> 16-digit token, "1" if it was claimed alone, owner
    {sequencer:orders:0}:failures       hash    group -> last failure of its head (JSON)
    {sequencer:orders:0}:clock          string  the lane clock in us; stamps and tokens come from it
    {sequencer:orders:0}:dispatch       list    groups that just became due; a hint, may be lost
    {sequencer:orders:0}:stats          hash    event -> how often, ever
    {sequencer:orders:0}:order:1002:77  zset    16-digit stamp + id -> score
    {sequencer:orders:0}:body:1002:77   hash    id -> 16-digit stamp + 4-digit attempts + flag (+ due) + envelope
    {sequencer:orders:0}:policy         hash    the queue's policy, the same in every lane; and `paused`
    {sequencer:orders:0}:paused         set     groups to hold back
    {sequencer:orders:0}:marks          hash    group -> watermark; `marks:old` is the generation before
    {sequencer:orders:0}:numbers        hash    group -> watermark of a sequence, while the group has messages
    {sequencer:orders:0}:seen           set     group, newline, id of handled messages; and `seen:old`
    {sequencer:orders:0}:memory         hash    when those generations began and last grew, us
    {sequencer:orders:0}:dead           zset    16-digit stamp, group, newline, id of a dead letter -> when it died, us
    {sequencer:orders:0}:letters        hash    the same -> score, newline, failure (JSON), newline, record
    {sequencer:orders:0}:audit          stream  what consumers with audit=True handled, bounded
    sequencer:queues                    hash    queue -> number of lanes
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any
from urllib.parse import unquote
from uuid import UUID
from zlib import crc32

from .errors import ConfigurationError, InvalidGroup, shown

MAX_GROUP_BYTES = 512
MAX_NAME_CHARS = 128
PAUSED = 9e15
"""The visible-at of a paused group, in us: beyond every time a message may have."""
_NAME = re.compile(r"[A-Za-z0-9_.-]+\Z")
_UNSAFE = re.compile(r"[%:\x00-\x1f\x7f]")


def check_name(what: str, name: object) -> str:
    """A queue's or namespace's name; anything that could end the hash tag or confuse a shell is refused."""
    if not isinstance(name, str) or not _NAME.match(name) or len(name) > MAX_NAME_CHARS:
        raise ConfigurationError(
            f"{what} {shown(name)} must be 1 to {MAX_NAME_CHARS} characters, only letters, digits, '_', '.' and '-'"
        )
    return name


def _escape(match: re.Match[str]) -> str:
    return f"%{ord(match[0]):02X}"


def _part(part: Any, group: Any) -> str:
    kind = type(part)
    if kind is str:
        if part.isalnum():  # the usual case, without a look for what must be escaped
            return str(part)
        text = part
    elif kind is int and part.bit_length() < 8 * MAX_GROUP_BYTES:
        return str(part)
    elif isinstance(part, int) and part.bit_length() >= 8 * MAX_GROUP_BYTES:
        raise InvalidGroup(f"group: part {shown(part)} is too long for a key, at most {MAX_GROUP_BYTES} bytes")
    elif isinstance(part, bool) or not isinstance(part, str | int | UUID):
        raise InvalidGroup(f"group {shown(group)}: part {shown(part)} is {kind.__name__}, must be str, int or UUID")
    else:
        text = str(part.value if hasattr(part, "value") else part)
    if not text:
        raise InvalidGroup(f"group {shown(group)} has an empty part; give every part a value")
    return _UNSAFE.sub(_escape, text)


def encode_group(group: Any) -> str:
    """The text of a group inside a key: parts joined by ':', with ':', '%' and control characters as %XX.

    So `["a:b", "c"]` and `["a", "b:c"]` differ, and `1002` equals `"1002"`. A single str, int or UUID is a group of one
    part. Raises InvalidGroup.
    """
    if isinstance(group, str | int | UUID):
        group = (group,)
    if not isinstance(group, list | tuple):
        raise InvalidGroup(f"group must be a list of str, int or UUID parts, got {shown(group)}")
    if not group:
        raise InvalidGroup("group is empty; give at least one part, for example group=[user_id, order_id]")
    text = ":".join([_part(part, group) for part in group])
    try:
        size = len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError:
        raise InvalidGroup(f"group {shown(group)} holds a lone surrogate, which is not text") from None
    if size > MAX_GROUP_BYTES:
        raise InvalidGroup(f"group {text[:40]!r}... is {size} bytes long in its key, at most {MAX_GROUP_BYTES}")
    return text


def decode_group(text: str) -> tuple[str, ...]:
    """The parts of an encoded group, each as text."""
    parts = text.split(":")
    return tuple([unquote(part) for part in parts]) if "%" in text else tuple(parts)


@dataclass(frozen=True, slots=True)
class LaneKeys:
    """The keys of one lane; `prefix` + "order:" or "body:" + group makes those of a group (here and in Lua)."""

    prefix: str
    schedule: str
    leases: str
    failures: str
    clock: str
    dispatch: str
    stats: str
    policy: str
    paused: str
    marks: str
    numbers: str
    seen: str
    memory: str
    dead: str
    letters: str
    audit: str

    def order(self, group: str) -> str:
        return f"{self.prefix}order:{group}"

    def body(self, group: str) -> str:
        return f"{self.prefix}body:{group}"


@lru_cache(maxsize=1024)
def lane_keys(namespace: str, queue: str, lane: int | str) -> LaneKeys:
    prefix = f"{{{namespace}:{queue}:{lane}}}:"
    return LaneKeys(prefix, *[prefix + field.name for field in fields(LaneKeys)[1:]])


def lane_of(group: str, lanes: int) -> int:
    """Which lane an encoded group belongs to: the same in every process and version (CRC-32, not `hash`)."""
    return crc32(group.encode()) % lanes if lanes > 1 else 0


def registry_key(namespace: str) -> str:
    """The hash of all queues of a namespace and their number of lanes."""
    return f"{namespace}:queues"
