"""Calls of the scripts that watch a queue, for one target or all: alert, alert_sent, pending_news, mark_notified."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from ..store.keys import ShardKeys
from ..store.replies import pairs, text
from .call import Call, on_shard

Verdict = Literal["open", "keep", "close"]  # of a condition: above its limit; between; well below
What = Literal["open", "news", "again", "resolved"]  # what a target is notified of
SECOND_US = 1_000_000


class Condition(NamedTuple):
    """A condition as it is seen now."""

    kind: str
    verdict: Verdict
    value: str  # a number as text; "" where it has none
    limit: str  # the same, of the limit by which this verdict was reached
    text: str  # its sentence
    new_to: Sequence[str] = ()  # targets for which there is something new to name


class AlertTimes(NamedTuple):
    """Seconds, as alert.lua counts them."""

    settle: float  # a condition that is below its limit for so long is over
    gap: float = 60.0  # between news of an incident, for a target
    again: float = 4 * 3600.0  # after that it is repeated; 0: never
    hold: float = 30.0  # for so long the right to tell is one caller's
    stale: float = 900.0  # what nobody checked for so long is over


class Grant(NamedTuple):
    """The right to tell a target of an incident, for the time of the hold."""

    kind: str
    what: What
    target: str
    opened_us: int
    number: int
    """How many messages of the incident the target took before, or may have taken before it came back."""
    value: str
    limit: str  # by which the incident is open: perhaps not the caller's own
    text: str
    is_late: bool  # it is over before the target took a message
    now_us: int


def alert(keys: ShardKeys, seen: Sequence[Condition], targets: Sequence[str], times: AlertTimes) -> Call[list[Grant]]:
    """Take what is seen of a queue; the rights to notify that the caller got, again after their hold if lost."""
    words = [(one.kind, one.verdict, one.value, one.limit, one.text, list(one.new_to)) for one in seen]
    spans = [round(seconds * SECOND_US) for seconds in times]
    return on_shard(keys, "alert", words, list(targets), spans, parse=_parse_grants)


def _parse_grants(reply: list[Any]) -> list[Grant]:
    now_us, *words = [word.decode("utf-8", "replace") for word in reply]
    rows = [words[at : at + 9] for at in range(0, len(words), 9)]
    return [
        Grant(kind, what, target, int(opened), int(number), value, limit, text, late == "1", int(now_us))
        for kind, what, target, opened, number, value, limit, text, late in rows
    ]


def alert_sent(keys: ShardKeys, grant: Grant) -> Call[bool]:
    """Say that the target took the message; false where another sent it too, or the incident is no more."""
    words = (grant.kind, grant.target, grant.opened_us, grant.number, grant.what)
    return on_shard(keys, "alert_sent", *words, parse=bool)


class PendingNewsGroup(NamedTuple):
    """A parked group that a target was not notified of."""

    group: str  # encoded
    at: str  # of its failure, as `mark_notified` takes it
    failure: bytes  # JSON with type, message, id and attempt; empty where there is none


class PendingNews(NamedTuple):
    """What a target was not notified of, in one shard."""

    looked_at: int  # parked groups of this page
    groups: list[PendingNewsGroup]
    dead: int  # dead letters
    dead_us: str  # when the last of them died, as `mark_notified` takes it
    letters: list[tuple[str, bytes]]  # the first of them: name, and failure as above


def pending_news(keys: ShardKeys, target: str, first: int = 0) -> Call[PendingNews]:
    """A page of parked groups after the first `first`, and the dead letters, of which the target was not notified."""
    return on_shard(keys, "pending_news", target, first, parse=_parse_pending_news)


def _parse_pending_news(reply: list[Any]) -> PendingNews:
    (looked_at, *groups), (dead, dead_us, *letters) = reply
    rows = zip(groups[::3], groups[1::3], groups[2::3], strict=True)
    found = [PendingNewsGroup(text(group), text(at), failure) for group, at, failure in rows]
    named = [(text(letter), failure) for letter, failure in pairs(letters)]
    return PendingNews(int(looked_at), found, int(dead), dead_us.decode(), named)


def mark_notified(
    keys: ShardKeys, target: str, groups: Sequence[PendingNewsGroup] = (), dead_us: str = "", cursor: str = ""
) -> Call[str]:
    """Mark a target as notified; with a cursor, forget a page of groups no longer parked. The next cursor; "0": end."""
    words = [word for one in groups for word in (one.group, one.at)]
    return on_shard(keys, "mark_notified", target, words, dead_us, cursor, parse=text)
