"""Which conditions of a queue hold, from what was seen of it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ...calls.alerts import Condition, Verdict
from ...settings.policy import Policy
from ...settings.thresholds import CLOSES_AT, LEAST_ATTEMPTS, Thresholds
from ...texts.alerts import alert_text
from ...texts.words import error_text
from ...values.pools import OutboxBacklog
from ...values.views import QueueInfo, QueueSnapshot, as_json

CUT_SHORT = 0.9
"""A history that has this part of its cap, and reaches less far than this part of its window, is cut short."""
DAY_S = 86_400


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
    """Where the queue keeps a history."""
    down_s: float | None = None
    """For how long no consumer of this host gets to work; 0: they do."""
    check: str | None = None
    """What the queue's own check says; "": nothing is wrong."""
    outbox: OutboxBacklog | None = None
    """Where a relay of this host says it."""
    host: str = ""


def conditions(facts: QueueFacts, limits: Thresholds, news: Mapping[str, Sequence[str]]) -> list[Condition]:
    """What is known of each condition that is not turned off. `news`: the targets not notified in full, by kind."""
    found = [*_of_snapshot(facts, limits), *_of_counts(facts, limits), *_of_host(facts, limits)]
    if any(seen and seen.unreachable for seen in (facts.snapshot, facts.info)):
        found = [one._replace(verdict="keep") if one.verdict == "close" else one for one in found]
    return [one._replace(new_to=news.get(one.kind, ())) for one in found]


def _measured(
    kind: str, value: float | None, limit: float, *, is_known: bool = True, **fields: Any
) -> Iterator[Condition]:
    if value is None or limit <= 0:
        return
    verdict: Verdict = "open" if value >= limit else "close" if value < CLOSES_AT * limit else "keep"
    text = alert_text(kind, value=value, **fields)
    yield Condition(kind, verdict if is_known else "keep", f"{value:.6g}", f"{limit:.6g}", text)


def _held(kind: str, holds: bool, **fields: Any) -> Condition:
    text = alert_text(kind.partition("@")[0], **fields) if holds else ""
    return Condition(kind, "open" if holds else "close", "", "", text)


def _of_snapshot(facts: QueueFacts, limits: Thresholds) -> Iterator[Condition]:
    if (seen := facts.snapshot) is None:
        return
    is_known = not seen.is_paused
    yield from _measured("parked", seen.parked, limits.parked)
    yield from _measured("dead", seen.dead, limits.dead)
    yield from _measured("wait", seen.waits_s, limits.wait, is_known=is_known, due=seen.due)
    yield from _measured("no_consumers", facts.no_consumers_s, limits.no_consumers, is_known=is_known)
    if limits.outage:
        yield _held("outage", seen.has_outage)
    if limits.unreachable:
        yield _held("unreachable", seen.unreachable is not None, **as_json(seen.unreachable or {}))


def _of_counts(facts: QueueFacts, limits: Thresholds) -> Iterator[Condition]:
    if (info := facts.info) is not None:
        yield from _measured("backlog", info.backlog, limits.backlog, is_estimate=info.is_estimate)
        is_held_back = info.is_paused or info.outage is not None  # which is an incident of its own
        yield from _measured("lag", info.lag_s, limits.lag, is_known=not is_held_back)
        if limits.history and facts.policy is not None and (history := info.history):
            is_full = history.messages >= CUT_SHORT * facts.policy.history_cap * info.shards
            is_cut = is_full and history.reaches_s < CUT_SHORT * history.window_s
            yield _held("history", is_cut, reaches_d=history.reaches_s / DAY_S, window_d=history.window_s / DAY_S)
    if facts.tried is not None:
        failed, attempts = facts.tried
        share, is_few = failed / max(1, attempts), attempts < LEAST_ATTEMPTS
        for one in _measured("failing", share, limits.failing, is_few=is_few, failed=failed, attempts=attempts):
            yield one._replace(verdict="close") if is_few else one
    yield from _measured("memory", facts.memory, limits.memory)


def _of_host(facts: QueueFacts, limits: Thresholds) -> Iterator[Condition]:
    """What one host knows alone: it opens and closes what bears its name. An outbox is the same for all."""
    if (outbox := facts.outbox) is not None:
        yield from _measured("outbox_age", outbox.oldest_s, limits.outbox_age, unsent=outbox.unsent)
        yield from _measured("outbox_held", outbox.held, limits.outbox_held)
    if limits.pool and facts.down_s is not None:
        yield _held(f"pool@{facts.host}", facts.down_s > 0, host=facts.host, down_s=facts.down_s)
    if facts.check is not None:
        yield _held(f"check@{facts.host}", bool(facts.check), check=error_text(facts.check))
