"""Views of a queue of which a shard can't be reached: the others are shown, and it is named."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from sequencer import Sequencer
from sequencer.errors import SequencerError, ServerUnavailable
from sequencer.net.blocking import BlockingNet, finish
from sequencer.net.endpoint import Endpoint
from sequencer.queue import counts
from sequencer.queue.alerts import pending_news
from sequencer.queue.alerts.incidents import alerts
from sequencer.queue.consumers import consumers
from sequencer.queue.dead_letters.listed import count_dead, dead, dead_page
from sequencer.queue.groups.listed import group_page, groups, parked
from sequencer.queue.history.known import find
from sequencer.queue.history.listed import history
from sequencer.queue.session import Session
from sequencer.queue.views import no_consumers, paused_groups
from sequencer.settings.options import queue_options
from sequencer.store.group import shard_of
from tests.support.handling import Make

SHARDS, AWAY = 4, 2
NEAR = [str(n) for n in range(40) if shard_of(str(n), SHARDS) != AWAY]


class SomeAway:
    """A net, or a connection of it alone, but nothing that names a key of a shard that is away arrives."""

    is_cluster = True

    def __init__(self, real: Any, prefixes: Sequence[str]) -> None:
        self.real, self.prefixes = real, prefixes

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def check(self, *commands: Sequence[Any]) -> None:
        if any(str(word).startswith(prefix) for words in commands for word in words for prefix in self.prefixes):
            raise ServerUnavailable("unreachable", server="n:7001", error="refused")

    async def ask(self, call: Any, **how: Any) -> Any:
        self.check(call.keys)
        return await self.real.ask(call, **how)

    async def read(self, commands: Sequence[Any]) -> list[Any]:
        self.check(*commands)
        found: list[Any] = await self.real.read(commands)
        return found

    async def answers(self, commands: Sequence[Any], **_: Any) -> list[Any]:
        found = list[Any]()
        for words in commands:
            try:
                found += await self.read([words])
            except SequencerError as error:
                found.append(error)
        return found

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[Any]:
        async with self.real.alone() as alone:
            yield SomeAway(alone, self.prefixes)


Seen = Callable[..., Session]


@pytest.fixture
def seen(make: Make, server: Any, namespace: str) -> Seen:
    """A session that looks at a queue of four shards, of which some are away."""
    seq: Sequencer = make("wide", shards=SHARDS, history_window="1h", dead_letter_on=["ValueError"])
    seq.append_many({"body": n, "group": n, "id": "same"} for n in range(40))
    seq.consume(lambda message: 1 / message.body % 2, max_messages=10)

    def session(*away: int) -> Session:
        net: Any = BlockingNet(server.url, lambda: Endpoint.from_url(server.url))
        some: Any = SomeAway(net, [f"{{{namespace}:wide:{shard}}}" for shard in away])
        return Session(queue_options("wide", namespace, {}), some)

    return session


async def listed(items: Any) -> list[Any]:
    return [one async for one in items]


VIEWS: dict[str, Callable[[Session], Any]] = {
    "info": counts.info,
    "snapshot": counts.snapshot,
    "groups": groups,
    "leased groups": lambda one: group_page(one, "leased"),
    "parked": lambda one: listed(parked(one)),
    "dead": dead,
    "dead page": dead_page,
    "dead, counted": lambda one: count_dead(one, error="*"),
    "history": lambda one: listed(history(one)),
    "find": lambda one: find(one, "same"),
    "consumers": consumers,
    "paused": paused_groups,
    "no consumers": no_consumers,
    "policy": Session.fresh_policy,
    "amounts": pending_news.amounts,
    "news": lambda one: pending_news.news_of(one, "hook", {}),
    "sweep": pending_news.forget_resumed,
    "alerts": alerts,
}


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_leaves_out_what_cannot_be_reached(seen: Seen, view: str) -> None:
    finish(VIEWS[view](seen(AWAY)))
    finish(VIEWS[view](session := seen(0)))  # which has what others have a copy of
    with pytest.raises(ServerUnavailable):
        finish(VIEWS[view](seen(*range(SHARDS))))
    session.net.is_cluster = False  # type: ignore[misc]
    with pytest.raises(ServerUnavailable):
        finish(VIEWS[view](session))


def test_it_is_named_in_the_result_and_once_in_the_log(seen: Seen, caplog: pytest.LogCaptureFixture) -> None:
    session, whole = seen(AWAY), finish(counts.info(seen()))
    with caplog.at_level(logging.WARNING, "sequencer"):
        found: list[Any] = [finish(counts.info(session)), finish(counts.snapshot(session)), finish(dead_page(session))]
    for one in found:
        assert one.unreachable.shards == (AWAY,)
        assert "n:7001" in one.unreachable.error
    assert sum("shards unreachable" in record.message for record in caplog.records) == 1
    info = found[0]
    assert (whole.unreachable, whole.shards, info.shards) == (None, SHARDS, SHARDS)
    assert {group.group[0] for group in finish(groups(session))} <= {*NEAR}
    assert 0 < info.backlog < whole.backlog
    assert info.append_rate is None
    session.net.prefixes = ()  # type: ignore[attr-defined]
    back = finish(counts.info(session))
    assert (back.unreachable, back.append_rate) == (None, None), "what is back was not appended just now"
    assert finish(counts.info(session)).append_rate == 0.0
