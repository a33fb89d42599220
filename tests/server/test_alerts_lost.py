"""No parked head and no dead letter is one that nobody hears of, also where a message came and its answer was lost."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from sequencer import SetAside
from sequencer.errors import Park
from sequencer.net.link import Link
from sequencer.processes.alerts import sender
from sequencer.processes.alerts import watcher as watchers
from sequencer.processes.alerts.notice import Notice
from sequencer.processes.alerts.watcher import Watcher
from sequencer.queue.alerts import pending_news
from sequencer.queue.session import QueueGone
from sequencer.store.keys import ShardKeys, shard_keys

from ..support.command_counts import commands_of
from ..support.watching import MakeSequencer, Watching, watched

END_HOLDS = """
for _, kind in ipairs(redis.call('HKEYS', KEYS[1])) do
  local record = cjson.decode(redis.call('HGET', KEYS[1], kind))
  for _, to in pairs(record.to) do to.hold, to.sent = '0', nil end
  redis.call('HSET', KEYS[1], kind, cjson.encode(record))
end
"""
"""Ends the holds, and the wait between news."""
PARK = "for i = 1, tonumber(ARGV[1]) do redis.call('ZADD', KEYS[1], 'inf', ('%06d'):format(i)) end"


@pytest.fixture
def watching(make: MakeSequencer) -> Iterator[Watching]:
    found = Watching(make(shards=1), make)
    yield found
    found.close()


@pytest.fixture
def keys(watching: Watching) -> ShardKeys:
    return shard_keys(watching.seq.options.namespace, "jobs", 0)


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "sequencer")


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender, "BETWEEN_S", 0.01)


class Receiver:
    """Shows what it takes, as docs/alerts.md asks of a receiver: nothing twice that has one key."""

    def __init__(self) -> None:
        self.seen: set[str] = set()
        self.groups: list[str] = []

    def takes(self, notices: list[Notice]) -> None:
        for one in notices:
            if one.key not in self.seen:
                self.seen.add(one.key)
                self.groups += [item.group for item in one.items]


@pytest.mark.parametrize("error", [Park("x"), SetAside("x")])
def test_what_is_new_since_an_answer_was_lost_has_a_key_of_its_own(
    watching: Watching, link: Link, keys: ShardKeys, error: Exception
) -> None:
    (chat, _), watcher, receiver = watching.targets, watching.watcher(), Receiver()
    watching.fail(error, "ann")
    chat.loses = True
    watching.look(watcher)
    link.command("EVAL", END_HOLDS, 1, keys.alerts)
    watching.look(watcher)
    receiver.takes(chat.took)
    assert receiver.groups == ["ann"], "the same news has the same key"
    chat.loses = False
    watching.fail(error, "bob")
    link.command("EVAL", END_HOLDS, 1, keys.alerts)
    watching.look(watcher)
    receiver.takes(chat.took)
    assert "bob" in receiver.groups
    assert [to.messages for to in watching.seq.alerts()[0].notified if to.target == "chat"] == [1]


def test_however_many_are_parked_all_are_told(
    watching: Watching, link: Link, keys: ShardKeys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchers, "CHECK_PAGES", 1)
    watching.seq.append({}, "one")
    link.command("EVAL", PARK, 1, keys.schedule, 15_100)
    try:
        watching.look(watching.watcher())
        assert [one.more for one in watching.targets[0].took if one.kind == "parked"] == [15_090]
        assert link.command("HLEN", keys.notified) == 2 * 15_100
        link.command("ZADD", keys.schedule, "inf", "z")
        link.command("EVAL", END_HOLDS, 1, keys.alerts)
        watching.look(watching.watcher())  # one that looks once, as `watch --once`
        assert [(one.what, one.items[0].group) for one in watching.targets[0].took[-1:]] == [("news", "z")]
    finally:
        link.command("EVAL", "redis.call('ZREMRANGEBYSCORE', KEYS[1], 'inf', 'inf')", 1, keys.schedule)


def test_who_marks_late_brings_nothing_back(watching: Watching, link: Link, keys: ShardKeys) -> None:
    client = watched(watching.seq)
    watching.fail(SetAside("x"), "ann")
    late = client.news_of("chat", {})
    watching.fail(SetAside("x"), "bob")
    client.mark_notified("chat", client.news_of("chat", {}), "dead")
    client.mark_notified("chat", late, "dead")
    assert client.news_of("chat", {}) == pending_news.News()
    client.close()


def test_who_marks_after_a_deletion_writes_nothing(watching: Watching, link: Link, keys: ShardKeys) -> None:
    watching.fail(Park("x"), "ann")
    client = watched(watching.seq)
    found = client.news_of("chat", {})
    watching.seq.delete()
    for _ in range(2):
        with pytest.raises(QueueGone):
            client.mark_notified("chat", found, "parked")
    assert link.command("EXISTS", keys.notified) == 0
    client.close()


@pytest.mark.parametrize("error", [Park("no such card"), SetAside("no such card")])
def test_who_could_not_be_told_hears_in_one_message_what_it_was(
    watching: Watching, link: Link, keys: ShardKeys, error: Exception
) -> None:
    (chat, mail), watcher = watching.targets, watching.watcher()
    chat.refuses = True
    watching.fail(error, "ann", "bob")
    watching.look(watcher)
    watching.seq.resume_many(everything=True)
    watching.seq.redrive(everything=True)
    watching.seq.consume(lambda message: None, until_empty=True)
    watching.look_until(watcher, lambda: mail.whats() == ["open", "resolved"], "it is over")
    chat.refuses = False
    link.command("EVAL", END_HOLDS, 1, keys.alerts)
    watching.look(watcher)
    (one,) = chat.took
    assert one.what == "resolved"
    assert one.text != mail.took[1].text, "it says that it is over"
    assert one.incident == mail.took[0].incident
    assert (one.opened_at, one.at > one.opened_at) == (mail.took[0].opened_at, True)
    assert mail.took[1].items == (), "it was told of them"
    assert link.command("EXISTS", keys.alerts) == 0


def test_an_idle_queue_with_many_parked_groups_costs_next_to_nothing(
    watching: Watching, link: Link, keys: ShardKeys
) -> None:
    """Before what ended was counted first, each look went through 2,000 groups a target."""
    watching.seq.append({}, "one")
    link.command("EVAL", PARK, 1, keys.schedule, 10_000)
    try:
        watcher = watching.watcher()
        watching.look(watcher)
        costs = [commands_of(link, lambda: watching.look(watcher)).total() for _ in range(8)]
        assert costs[0] > 100, "it looks at all of them after it told"
        assert max(costs[-2:]) <= 40
        link.command("ZADD", keys.schedule, "inf", "z")
        assert "z" in news_seen(watching, watcher, link, keys)
    finally:
        link.command("EVAL", "redis.call('ZREMRANGEBYSCORE', KEYS[1], 'inf', 'inf')", 1, keys.schedule)


def news_seen(watching: Watching, watcher: Watcher, link: Link, keys: ShardKeys) -> list[str]:
    """Groups that are named by news, within a whole round of looks."""
    for _ in range(8):
        link.command("EVAL", END_HOLDS, 1, keys.alerts)
        watching.look(watcher)
    return [item.group for one in watching.targets[0].took if one.what == "news" for item in one.items]


def test_a_group_that_parks_again_between_two_looks_is_seen_by_the_count(
    watching: Watching, link: Link, keys: ShardKeys
) -> None:
    """As many are parked as before."""
    watcher = watching.watcher()
    watching.fail(Park("x"), "ann", "bob")
    for _ in range(3):
        watching.look(watcher)
    watching.seq.resume("ann")
    watching.fail(Park("y"), "ann", id="m2")
    assert news_seen(watching, watcher, link, keys) == ["ann"]
