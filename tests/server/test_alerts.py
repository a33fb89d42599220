"""What is told of a queue: parked groups and dead letters by name, once each; by whoever watches, until it is over."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing

import pytest

from sequencer import Message
from sequencer.doctor.diagnose import diagnose
from sequencer.errors import Park, SetAside
from sequencer.net.link import Link
from sequencer.processes.alerts.watcher import Local, Watcher
from sequencer.store.keys import ShardKeys, shard_keys

from ..support.changed_script import changed_script
from ..support.shard import SECOND, Shard, item
from ..support.watching import MakeSequencer, Watching, plan_of, watched
from .test_history_windows import end


@pytest.fixture
def watching(make: MakeSequencer) -> Iterator[Watching]:
    found = Watching(make(shards=2), make)
    yield found
    found.close()


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "sequencer")


def test_each_parked_group_is_told_once_and_again_if_it_parks_again(watching: Watching) -> None:
    chat, watcher = watching.targets[0], watching.watcher()
    watching.fail(Park("no such card"), "ann", "bob's own")
    watching.look(watcher)
    watching.look(watcher)
    (first,) = chat.took
    assert (first.what, first.kind, first.value, first.limit, first.number) == ("open", "parked", 2.0, 1.0, 0)
    assert sorted((one.group, one.id, one.error) for one in first.items) == [
        ("'bob'\"'\"'s own'", "m", "Park: no such card"),
        ("ann", "m", "Park: no such card"),
    ]
    assert all(one.commands[0].startswith("sequencer resume jobs ") for one in first.items)
    assert watching.seq.alerts()[0].key == first.incident
    watching.seq.resume("ann")
    watching.fail(Park("still no card"), "ann", id="m")
    watching.look(watcher)
    assert chat.whats() == ["open"]  # news of it wait for a minute
    watching.seq.resume_many(everything=True)
    watching.seq.consume(lambda message: None, until_empty=True)
    watching.look_until(watcher, lambda: chat.whats()[-1:] == ["resolved"], "it is over")
    assert {one.incident for one in chat.took} == {first.incident}
    assert watching.seq.alerts() == []
    watching.fail(Park("again"), "ann", id="m2")
    watching.look(watcher)
    assert chat.took[-1].what == "open"
    assert chat.took[-1].incident != first.incident
    assert [one.error for one in chat.took[-1].items] == ["Park: again"]


def news(watching: Watching) -> list[str]:
    """Groups that the target `chat` was not told of."""
    seq = watching.seq
    client = watched(seq)
    found = client.news_of("chat", {}).groups
    client.close()
    return sorted(one.group for some in found.values() for one in some)


def parks_again(watching: Watching) -> None:
    watching.fail(Park("x"), "ann")
    watching.look(watching.watcher())
    assert news(watching) == []
    watching.seq.resume("ann")
    watching.seq.consume(_park, until_empty=True)
    assert news(watching) == ["ann"]


def _park(message: Message) -> None:
    raise Park("x")


def test_who_parks_again_is_news(watching: Watching) -> None:
    parks_again(watching)


def test_telling_by_the_message_alone_is_found(watching: Watching) -> None:
    old = "known[i]:match('[{,]\"at\":([%d.e+]+)')"
    with changed_script("pending_news", old, 'known[i]:match(\'"id":"([^"]*)\')'), pytest.raises(AssertionError):
        parks_again(watching)


def test_dead_letters_are_told_by_name_once(watching: Watching) -> None:
    chat, watcher = watching.targets[0], watching.watcher()
    watching.fail(SetAside("bad"), "ann", "bob")
    watching.look(watcher)
    (one,) = chat.took
    assert (one.kind, one.value, len(one.items), one.more) == ("dead", 2.0, 2, 0)
    assert one.items[0].error == "SetAside: bad"
    assert one.items[0].commands == (f"sequencer dead redrive jobs --id m --namespace {one.namespace}",)
    watching.look(watcher)
    assert chat.whats() == ["open"]


def test_a_clock_that_is_set_back_hides_no_dead_letter(link: Link, namespace: str) -> None:
    from sequencer import calls

    shard = Shard(link, shard_keys(namespace, "jobs", 0))
    for number, back_s in enumerate((0, 3600, 3600)):
        shard.append(item("g", f"m{number}", f"{number}.0"))
        lease = shard.claim()["g"]
        shard.later(-back_s)
        shard.nack(lease, None, ending="dead")
        shard.later(back_s)
        found = shard.run(calls.pending_news(shard.keys, "chat"))
        assert [name[-2:] for name, _ in found.letters] == [f"m{number}"]
        shard.run(calls.mark_notified(shard.keys, "chat", dead_us=found.dead_us))
    assert shard.run(calls.pending_news(shard.keys, "chat")).dead == 0
    assert shard.run(calls.pending_news(shard.keys, "mail")).dead == 3


def test_a_clock_that_is_set_back_makes_no_head_younger_and_no_history_shorter(
    watching: Watching, link: Link, namespace: str
) -> None:
    """Else an incident of `lag` would end, and begin again when the clock has caught up."""
    watching.make("old", history_window=86_400.0).connect()
    shard = Shard(link, shard_keys(namespace, "old", 0))
    shard.now = int(link.command("TIME")[0]) * SECOND - 11 * 3600 * SECOND
    end(shard, "first", group="ended")
    shard.later(12 * 3600)
    shard.append(item("waits", "m"))
    shard.later(1200)
    shard.append(item("other", "m"))  # the clock was an hour and 20 minutes ahead, and is set back now
    with closing(watched(watching.seq, "old")) as client:
        info = client.info()
    assert info.history is not None
    assert (info.lag_s, info.history.reaches_s) == (1200.0, 12 * 3600 + 1200.0)


def test_a_target_that_takes_nothing_delays_nobody(watching: Watching) -> None:
    chat, mail = watching.targets
    chat.refuses = True
    watching.fail(Park("x"), "ann")
    watcher = watching.watcher()
    watching.look(watcher)
    assert (chat.whats(), mail.whats()) == ([], ["open"])
    assert [one.fields["target"] for one in watching.events if one.name == "alert not sent"] == ["chat"]
    assert [to.messages for to in watching.seq.alerts()[0].notified] == [0, 1]


def test_parked_groups_are_told_by_type_of_error_and_not_as_a_lag_too(make: MakeSequencer) -> None:
    with closing(Watching(make(shards=2, max_attempts=1), make)) as watching:
        watching.fail(KeyError("card"), "ann", "bob", "cid")
        watching.fail(Park("x"), "dan")
        watching.look(watching.watcher(lag=0.001))
        (one,) = watching.targets[0].took
    assert (one.kind, one.value, one.errors) == ("parked", 4.0, {"KeyError": 3, "Park": 1})


def test_what_one_host_knows_is_told_and_over(watching: Watching) -> None:
    chat, watcher = watching.targets[0], watching.watcher()
    watching.local = Local(down_s=3.0, check="the disk is full")
    watching.look(watcher)
    assert {(one.kind, one.what) for one in chat.took} == {("pool", "open"), ("check", "open")}
    watching.local = Local(down_s=0.0, check="")
    watching.look_until(watcher, lambda: len(chat.took) == 4, "both are over")
    assert chat.whats("check") == ["open", "resolved"]
    assert "the disk is full" in [one.text for one in chat.took if one.kind == "check"]


def test_what_was_told_of_groups_that_go_on_is_forgotten(watching: Watching, link: Link) -> None:
    watching.fail(Park("x"), *[f"g{number}" for number in range(30)])
    watching.look(watching.watcher())
    keys = [shard_keys(watching.seq.options.namespace, "jobs", shard) for shard in (0, 1)]
    assert sum(link.command("HLEN", one.notified) for one in keys) == 60
    watching.seq.resume_many(everything=True)
    watching.seq.consume(lambda message: None, until_empty=True)
    watching.look(watching.watcher())  # its first look is on the minute
    assert [link.command("HLEN", one.notified) for one in keys] == [0, 0]


def test_the_minute_cleans_a_queue_in_which_nothing_ends(watching: Watching, link: Link) -> None:
    seq = watching.make("old", dead_window=3600.0)
    seq.append({}, "g", id="m")

    def handle(message: Message) -> None:
        raise SetAside("x")

    seq.consume(handle, until_empty=True)
    keys: ShardKeys = shard_keys(seq.options.namespace, "old", 0)
    (letter,) = link.command("ZRANGE", keys.dead, 0, -1)
    link.command("ZADD", keys.dead, 1, letter)
    quiet = Watcher(plan_of(seq, "old"), emit=watching.events.append)
    watching.watchers.append(quiet)
    watching.look(quiet)
    assert seq.count_dead() == 0
    assert link.command("EXISTS", keys.alerts) == 0


def test_a_pool_of_a_queue_that_was_never_used_is_told_and_is_no_problem_of_the_queue(
    watching: Watching, link: Link, namespace: str
) -> None:
    watcher, chat = watching.watcher(), watching.targets[0]
    watching.local = Local(down_s=100.0)
    watching.look(watcher)
    assert chat.whats() == ["open"]
    assert link.command("KEYS", "*") == [shard_keys(namespace, "jobs", 0).alerts.encode()]
    found = diagnose(watching.seq.endpoint, namespace)
    assert [one.text for one in found if one.check == "queues" and one.level != "ok"] == []
    watching.local = Local(down_s=0.0)
    watching.look_until(watcher, lambda: chat.whats() == ["open", "resolved"], "it is over")
    watching.look(watcher)
    assert link.command("KEYS", "*") == []


def test_a_queue_that_is_deleted_is_told_of_no_more_and_stays_deleted(watching: Watching, link: Link) -> None:
    """Its incidents go with it: who deleted it knows, and nobody is told that it is over."""
    chat, watcher, seq = watching.targets[0], watching.watcher(), watching.seq
    watching.fail(Park("x"), "ann")
    watching.look(watcher)
    seq.delete()
    for _ in range(3):
        watching.look(watcher)
    assert chat.whats() == ["open"]
    assert link.command("KEYS", f"*{seq.options.namespace}*") == []
    watching.seq = watching.make(shards=3)  # another queue of that name
    watching.fail(Park("y"), "bob")
    watching.look(watcher)
    assert chat.whats() == ["open", "open"]
    assert [item.group for item in chat.took[1].items] == ["bob"]
    assert chat.took[0].incident != chat.took[1].incident
