"""Which conditions of a queue hold, from what was seen of it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ...calls.alerts import Condition, Verdict
from ...settings.policy import Policy
from ...settings.thresholds import CLOSES_AT, LEAST_ATTEMPTS, Thresholds
from ...texts.commands import command
from ...texts.words import duration, error_text, many
from ...values.views import QueueInfo, QueueSnapshot

CUT_SHORT = 0.9
"""A history that has this part of its cap, and reaches less far than this part of its window, is cut short."""
TIMES = {"wait", "lag", "no_consumers", "away"}
SHARES = {"failing", "memory"}


class QueueFacts(NamedTuple):
    """What was seen. None: not known now, so that nothing of it opens or closes."""

    snapshot: QueueSnapshot | None = None
    info: QueueInfo | None = None
    no_consumers_s: float | None = None
    tried: tuple[int, int] | None = None
    """Attempts of five minutes that failed, and all."""
    memory: float | None = None
    """Share of the server's maxmemory in use."""
    policy: Policy | None = None
    down_s: float | None = None
    """For how long no consumer of this host gets to work; 0: they do."""
    check: str | None = None
    """What the queue's own check says; "": nothing is wrong."""
    host: str = ""


class PendingNews(NamedTuple):
    """What of a condition somebody was not told."""

    targets: list[str]
    heads: str
    """What can be named of it, for the one who knows least."""


def conditions(facts: QueueFacts, limits: Thresholds, news: Mapping[str, PendingNews]) -> list[Condition]:
    """What is known of each condition that is not turned off. `news`: by kind."""
    found = [*_of_look(facts, limits), *_of_info(facts, limits), *_of_host(facts, limits)]
    pending_news = [news.get(one.kind, PendingNews([], "")) for one in found]
    return [one._replace(new_to=new.targets, heads=new.heads) for one, new in zip(found, pending_news, strict=True)]


def may_open(info: QueueInfo, limits: Thresholds, arrived: int, seconds: float) -> bool:
    """Whether backlog or lag, which were below their limits, may have reached them since they were counted: `arrived`
    messages and `seconds` ago.
    """
    grown = ((info.backlog, limits.backlog, arrived), (info.lag_s, limits.lag, seconds))
    return any(value < limit <= value + more for value, limit, more in grown)


def unit_of(kind: str) -> str:
    """Of its value and limit: "s", "share", or "" for a count."""
    return "s" if kind in TIMES else "share" if kind in SHARES else ""


def _measured(kind: str, value: float, limit: float, text: str, *, is_known: bool = True) -> Iterator[Condition]:
    if limit <= 0:
        return
    verdict: Verdict = "open" if value >= limit else "close" if value < CLOSES_AT * limit else "keep"
    yield Condition(kind, verdict if is_known else "keep", f"{value:.6g}", f"{limit:.6g}", text)


def _holds(kind: str, holds: bool, text: str) -> Condition:
    return Condition(kind, "open" if holds else "close", "", "", text if holds else "")


def _of_look(facts: QueueFacts, limits: Thresholds) -> Iterator[Condition]:
    if (snapshot := facts.snapshot) is None:
        return
    yield from _measured(
        "parked", snapshot.parked, limits.parked, f"{many(snapshot.parked, 'group')} {_are(snapshot.parked)} parked"
    )
    yield from _measured(
        "dead", snapshot.dead, limits.dead, f"there {_are(snapshot.dead)} {many(snapshot.dead, 'dead letter')}"
    )
    waits = f"{many(snapshot.due, 'group')} wait{'s' if snapshot.due == 1 else ''} for a consumer, the first for "
    yield from _measured(
        "wait", snapshot.waits_s, limits.wait, f"{waits}{duration(snapshot.waits_s)}", is_known=not snapshot.is_paused
    )
    if limits.outage:
        yield _holds(
            "outage", snapshot.has_outage, "an outage holds the queue back: what all handlers need is not there"
        )
    if facts.no_consumers_s is not None:
        text = (
            f"nobody consumes: groups are due for {duration(facts.no_consumers_s)}, and no consumer has one in progress"
        )
        yield from _measured(
            "no_consumers", facts.no_consumers_s, limits.no_consumers, text, is_known=not snapshot.is_paused
        )


def _of_info(facts: QueueFacts, limits: Thresholds) -> Iterator[Condition]:
    if (info := facts.info) is not None:
        about = "about " if info.is_estimate else ""
        yield from _measured("backlog", info.backlog, limits.backlog, f"{about}{many(info.backlog, 'message')} wait")
        text = f"the oldest head of a group is {duration(info.lag_s)} old"
        is_held_back = info.is_paused or info.outage is not None  # which is told by itself
        yield from _measured("lag", info.lag_s, limits.lag, text, is_known=not is_held_back)
        if limits.history and facts.policy is not None and info.history:
            window, cap = info.history.window_s, facts.policy.history_cap * info.shards
            is_cut = info.history.messages >= CUT_SHORT * cap and info.history.reaches_s < CUT_SHORT * window
            reaches = f"{info.history.reaches_s / 86_400:.1f} days of {window / 86_400:.1f}"
            yield _holds("history", is_cut, f"the history is cut short by history_cap: it reaches back {reaches}")
    if facts.tried is not None:
        failed, attempts = facts.tried
        share, is_few = failed / max(1, attempts), attempts < LEAST_ATTEMPTS
        text = f"{failed:,} of {many(attempts, 'attempt')} failed in five minutes ({share:.0%})"
        for one in _measured("failing", share, limits.failing, f"{text}, too few to judge" if is_few else text):
            yield one._replace(verdict="close") if is_few else one
    if facts.memory is not None:
        text = f"the server has {facts.memory:.0%} of its maxmemory in use; when it is full, appends are refused"
        yield from _measured("memory", facts.memory, limits.memory, text)


def _of_host(facts: QueueFacts, limits: Thresholds) -> Iterator[Condition]:
    """What one host knows alone: it opens and closes what bears its name."""
    if limits.pool and facts.down_s is not None:
        text = f"no consumer on {facts.host} gets to work, for {duration(facts.down_s)}; see its log"
        yield _holds(f"pool@{facts.host}", facts.down_s > 0, text)
    if facts.check is not None:
        yield _holds(f"check@{facts.host}", bool(facts.check), error_text(facts.check))


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def commands_for(kind: str, queue: str, namespace: str, *, app: str = "", file: str = "") -> tuple[str, ...]:
    """What shows a condition, or fixes it. `app`: of the queue, where it is known; `file`: of `run`."""
    info = command("info", queue, namespace=namespace)
    lines = {
        "parked": (command("parked", queue, namespace=namespace, options=["--by-error"]),),
        "dead": (command("dead list", queue, namespace=namespace),),
        "wait": (command("groups", queue, namespace=namespace, options=["--state", "due"]),),
        "no_consumers": (command("consume", queue, namespace=namespace, options=["--app", app]) if app else info,),
        "history": (command("configure", queue, namespace=namespace),),
        **dict.fromkeys(("memory", "away"), (command("doctor", queue, namespace=namespace),)),
        "pool": (command("run", *filter(None, [file]), options=["--status"]),),
        "check": (),
    }
    return lines.get(kind.partition("@")[0], (info,))
