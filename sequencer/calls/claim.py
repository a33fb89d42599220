"""What a claim took: the reply of its script as groups and messages. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..errors import Undecodable
from ..settings.options import SIZE_BESIDE, ClaimLimits
from ..store.failure import decode_failure
from ..store.group import decode_group
from ..store.keys import ShardKeys
from ..store.ledger import Written
from ..store.record import (
    arrival_scores,
    decode_record,
    padded_owner,
    plain_messages,
    raw_message,
    read_plain,
    written_of,
)
from ..store.text import loads_words
from ..store.watermark import Sequenced, late_below
from ..texts.events import NO_BODY
from ..values.message import Message
from .call import Call, ms_text, on_shard


@dataclass(slots=True)
class LeasedGroup:
    """One group of a claim: its messages in order, and the member each of them is in Redis."""

    key: str
    group: tuple[str, ...]
    token: str
    expired_owner: str  # whose lease on this group ran out just before, or ""
    messages: list[Message]
    members: list[str]
    scores: Sequence[str]
    mark: str  # the group's watermark as the server keeps it, or ""
    on_late: str
    """What becomes of messages below it: "drop" and "dead_letter" give them up; else they are handled."""
    undecodable: str = ""  # why the last of `messages` can't be handled (its body is shown as text), or ""
    is_probe: bool = False
    """Whether it is to show that an outage is over: how its handler ends goes to the server."""
    ledgers: Sequence[Written | None] = ()  # of its messages, by position; empty where none has one
    failure: bytes = b""  # of its head, where the claim asked for failures and the head failed before


class Halted(NamedTuple):
    """A group that the claim deferred or parked itself, because a number is missing or its order is no sorted set."""

    group: tuple[str, ...]
    until_us: int | None  # until when it waits for what is missing, in us since 1970; None: it is parked
    id: str = ""  # of its head
    number: int = 0  # of its head, before which `missing` are missing: first and last
    missing: tuple[int, int] | None = None
    error: str = ""  # what the server says to a group that is broken, else ""


@dataclass(frozen=True, slots=True)
class Claimed:
    """What a claim took; `groups` is empty when nothing was due."""

    groups: list[LeasedGroup]
    next_due_s: float | None = None  # seconds until something will be due, if known; only when idle
    is_empty: bool = False  # whether nothing is left but parked or paused groups; only when idle
    has_more: bool = False  # whether other groups were due
    size: float = 0.0  # of its messages on average, in bytes, as ClaimLimits counts them
    was_ahead: bool = False
    """Whether it was sent while groups were in progress: then that nothing was due does not say that nothing is."""
    halted: Sequence[Halted] = ()
    now_us: int = 0  # the server's time when it was carried out


def parse_claimed(reply: list[Any], queue: str) -> Claimed:
    if len(reply) == 4 and isinstance(reply[2], int):
        now_us, due, groups, parked = reply
        wait = None if due in (b"", b"inf") else max(0.0, (float(due) - now_us) / 1e6)
        return Claimed([], wait, groups == parked, now_us=now_us)
    now_us, token, words, records, more, *others = reply
    number, text = int(token), token.decode()
    at = 0
    groups = []
    entries = loads_words(words) or ()
    # Of all groups at once: where each has one message, a seventh less to do than one by one.
    plain = read_plain([member for entry in entries for member in entry[4][:: int(entry[5])]], records)
    for key, padded, mark, on_late, places, stride in entries:
        group = decode_group(key)
        members = places[:: int(stride)]
        scores = arrival_scores(members) if stride == "1" else places[1::2]
        below, until = late_below(mark), at + len(members)
        some = records[at:until]
        read = (plain[0][at:until], plain[1][at:until]) if plain else read_plain(members, some)
        at = until
        undecodable = ""
        messages = (
            read and plain_messages(members, scores if stride == "2" else None, read, group, number, queue, below)
        ) or []
        ledgers = [] if messages else [*map(written_of, some)]
        for member, score, record in () if messages else zip(members, scores, some, strict=True):
            try:
                messages.append(decode_record(member, score, record, group, number, queue, below))
            except (ValueError, Undecodable) as error:
                messages.append(raw_message(member, score, record, group, number, queue, below))
                undecodable = str(error) if record else NO_BODY
                members = members[: len(messages)]
                break
        owner = padded.rstrip(" ")
        leased = LeasedGroup(key, group, text, owner, messages, members, scores, mark, on_late, undecodable)
        if any(ledgers):
            leased.ledgers = ledgers
        groups.append(leased)
    if more == b"p":
        groups[0].is_probe = True
    for at, failure in loads_words(others[1]) if len(others) > 1 else ():
        leased, kept = groups[at - 1], failure.encode("utf-8", "surrogateescape")
        if decode_failure(kept)[1] == leased.members[0]:  # it is about one message: another may be the head by now
            leased.failure = kept
    size = SIZE_BESIDE + sum(map(len, records)) / len(records) if records else 0.0
    halted = [_halted(*entry) for entry in loads_words(others[0])] if others and others[0] else ()
    return Claimed(groups, None if groups else 0.0, has_more=more == b"1", size=size, halted=halted, now_us=int(now_us))


def _halted(key: str, why: str, mark: str | None = None, score: str = "", message_id: str = "") -> Halted:
    if mark is None:
        return Halted(decode_group(key), None, error=why)
    group, until_us = decode_group(key), int(why) if why else None
    try:
        number = int(float(score))
        return Halted(group, until_us, message_id, number, Sequenced.parse(mark).missing_before(number))
    except (ValueError, OverflowError):  # others wrote that score or watermark
        return Halted(group, until_us, message_id)


def claim(
    keys: ShardKeys,
    queue: str,
    owner: str,
    lease_s: float,
    limits: ClaimLimits,
    *,
    ahead: bool = False,
    alone: int | None = None,
    with_failures: bool = False,
    only: str = "",
    suspects: int | None = None,
    has_suspect: bool = False,
) -> Call[Claimed]:
    """Lease due groups and read their first messages, within the limits; `ahead` of the time when they are needed.

    With `alone` it leaves half of the groups that are due, so that other consumers find some, and its own next claim;
    of a group that is due alone it takes this many messages, if the limits have fewer. `with_failures` brings those of
    the groups whose head failed before. `only`: no group but this one, encoded. `suspects`: of a consumer with many
    worker slots, how many groups whose lease expired it takes; `has_suspect`: it works on one.
    """
    crew = None if suspects is None else f"{'-' if has_suspect else ''}{suspects}"
    sizes = (limits.groups, limits.messages, limits.bytes)
    words = (padded_owner(owner), ms_text(lease_s), *sizes, ahead, alone, with_failures, only, crew)
    call = on_shard(keys, "claim", *words, parse=lambda reply: parse_claimed(reply, queue))
    return call._replace(repeatable=False)
