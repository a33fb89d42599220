"""What consumers say unasked: failures, parked groups, gaps, broken groups, a lost server; and the commands in it."""

from __future__ import annotations

import logging
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import pytest

from sequencer import EmbeddedServer, Message, Sequencer, SetAside
from sequencer.consume.emitter import ConsumerEvents
from sequencer.consume.in_flight import InFlight
from sequencer.consume.threads import Consumer
from sequencer.errors import DataError
from sequencer.net.link import Link
from sequencer.store.keys import ShardKeys, shard_keys
from sequencer.testing import wait_until
from sequencer.texts.events import Event
from tests.support.proxy.fault_proxy import FaultProxy

from ..support.background import Background
from ..support.handling import consumed, ctrl_c, drain


class NoStock(Exception):
    pass


def fail(message: Message) -> None:
    raise NoStock(f"none for {message.id}")


@pytest.fixture
def records(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[..., list[Any]]]:
    """The records of the named events, in their order; of all without a name."""
    with caplog.at_level(logging.INFO, "sequencer"):
        yield lambda *names: [one for one in caplog.records if not names or getattr(one, "event", "") in names]


@pytest.fixture
def shell(server: EmbeddedServer) -> Callable[[str], str]:
    """Runs a command line that a text gave, as it stands, in a shell; returns what it printed."""

    def run(line: str) -> str:
        code = "import sys; from sequencer.cli import main; sys.exit(main())"
        program = f'sequencer() {{ {shlex.quote(sys.executable)} -c "{code}" "$@"; }}'
        done = subprocess.run(
            ["bash", "-c", f"{program}\n{line}"],
            capture_output=True,
            check=False,
            text=True,
            env={"SEQUENCER_REDIS": server.url, "PATH": "/usr/bin:/bin"},
        )
        assert done.returncode == 0, f"{line}: {done.stderr}"
        return done.stdout

    return run


def test_a_failed_try_is_a_warning_and_the_last_one_an_error_with_its_traceback(
    make: Callable[..., Sequencer], records: Any
) -> None:
    seq = make(max_attempts=3, backoff=0.01)
    seq.append({"card": "4711 0815"}, group=["1002", 77], id="evt-1", headers={"h": "secret"})
    summary = seq.consume(fail, until_empty=True)
    *attempts, parked = records("message failed", "group parked")
    assert [(one.levelname, one.attempt, one.group, one.id, one.error_type) for one in attempts] == [
        ("WARNING", attempt, ["1002", "77"], "evt-1", "NoStock") for attempt in (1, 2)
    ]
    assert all(0 < one.retry_in_s < 1 and one.exc_info is None for one in attempts)
    assert (parked.levelname, parked.event, parked.attempt) == ("ERROR", "group parked", 3)
    trace = logging.Formatter().formatException(parked.exc_info)
    assert trace.splitlines()[1].endswith("in fail"), "our own frames are left out"
    text = " ".join(one.getMessage() + repr(vars(one)) for one in records())
    assert "4711 0815" not in text  # "4711" alone may be in the namespace or in a time
    assert "secret" not in text
    counts = seq._emitter.counts
    assert (counts.failed, counts.parked) == (3, 1) == (summary.failed, seq.snapshot().parked)


def test_the_commands_of_a_parked_group_show_and_fix_it(
    make: Callable[..., Sequencer], records: Any, shell: Callable[[str], str]
) -> None:
    seq = make(max_attempts=1)
    seq.append(1, group=["1002", "a b", "it's", "-x", "new\nline", "\x1b[2J", 'say "hi" $HOME `ls`'], id="evt-1")
    seq.consume(fail, until_empty=True)
    (parked,) = records("group parked")
    assert "is parked on evt-1 after 1 failed attempt (NoStock: none for evt-1)" in shell(parked.inspect)
    assert "goes on" in shell(parked.retry)
    assert not seq.parked()
    seq.consume(fail, until_empty=True)
    shell(parked.skip)
    assert seq.info().backlog == 0


def test_the_commands_of_a_dead_letter_show_it_and_put_it_back(
    make: Callable[..., Sequencer], records: Any, shell: Callable[[str], str]
) -> None:
    seq = make()

    def handler(message: Message) -> None:
        raise SetAside("bad data")

    seq.append(1, group=["a b", "it's"], id="-x y")
    seq.consume(handler, until_empty=True)
    (dead,) = records("dead letter")
    assert (dead.levelname, dead.exc_info[0]) == ("ERROR", SetAside)
    assert "SetAside: bad data" in shell(dead.inspect)
    assert "1" in shell(dead.retry)
    assert seq.dead() == []
    assert seq._emitter.counts.dead == 1


def test_a_gap_is_told_when_it_begins_and_when_it_parks_its_group(
    make: Callable[..., Sequencer], records: Any, shell: Callable[[str], str]
) -> None:
    seq = make(sequence=True, gap_timeout=1.0)
    seen: list[Event] = []
    seq.observe(seen.append)
    for number in (1, 4):
        seq.append(number, group="a b", score=number, id=f"n{number}")
    assert drain(seq) == [1]
    (wait,) = records("gap wait")
    assert (wait.levelname, wait.group, wait.id) == ("WARNING", ["a b"], "n4")
    assert (wait.number, wait.first_missing, wait.last_missing) == (4, 2, 3)
    assert 0 < wait.until - wait.created < 1.2
    (parked,) = records("group parked")
    assert (parked.levelname, parked.id, parked.exc_info) == ("ERROR", "n4", None)
    assert [(one.name, one.error) for one in seen] == [("group parked", None)]
    assert (seq._emitter.counts.parked, seq._emitter.counts.failed) == (1, 0)
    assert "missing before 4" in shell(parked.inspect)
    assert "2 to 3" in shell(parked.skip)


def test_groups_that_a_claim_ahead_parked_are_told_also_when_the_consumer_stops_before_it_asks(
    make: Callable[..., Sequencer], link: Link, namespace: str
) -> None:
    seq, schedule = make(sequence=True, gap_timeout=0.001), shard_keys(namespace, "jobs", 0).schedule
    seq.append_many([{"body": 1, "group": n, "score": 1 if n % 5 else 2} for n in range(1000)])
    seen: list[Event] = []
    seq.observe(seen.append)
    consumer: list[Consumer] = []

    def handler(message: Message) -> None:
        if link.command("ZSCORE", schedule, "600") == b"inf":
            consumer[0].stop()

    seq.consume(handler, until_empty=True, on_start=consumer.append)
    assert len(seen) == seq.snapshot().parked < 200


def test_a_broken_group_is_named(
    make: Callable[..., Sequencer], link: Link, keys: ShardKeys, records: Any, shell: Callable[[str], str]
) -> None:
    seq = make()
    seen: list[Event] = []
    seq.observe(seen.append)
    for group in ("good", "bad"):
        seq.append(1, group=group)
    link.command("DEL", keys.order("bad"))
    link.command("SET", keys.order("bad"), "another's")
    assert [message.group for message in consumed(seq)] == [("good",)]
    (broken,) = records("group broken")
    assert (broken.levelname, broken.group) == ("ERROR", ["bad"])
    assert "WRONGTYPE" in broken.error
    assert broken.inspect.startswith("sequencer doctor jobs")
    assert [(one.name, one.error) for one in seen] == [("group broken", None)]
    seq.resume("bad")
    seq.claim().release()
    assert len(records("group broken")) == 2, "parked anew"
    for key in (keys.order("bad"), keys.body("bad")):
        link.command("DEL", key)
    link.command("ZREM", keys.schedule, "bad")
    link.command("HDEL", keys.failures, "bad")


def test_an_outage_is_said_once_and_its_end(make: Callable[..., Sequencer], proxy: FaultProxy, records: Any) -> None:
    seq = make(redis=proxy.url)
    handled: list[int] = []
    failed = mock.patch.object(ConsumerEvents, "unreachable", autospec=True, side_effect=ConsumerEvents.unreachable)
    with failed as calls, Background(seq, lambda message: handled.append(message.body)):
        make().append(1, group="g")
        wait_until(lambda: handled == [1])
        proxy.add("request reset", times=None)
        wait_until(lambda: calls.call_count >= 5)
        proxy.clear()
        make().append(2, group="g")
        wait_until(lambda: handled == [1, 2])
    lost, back = records("server lost", "server back")
    assert (lost.event, lost.levelname, back.event, back.levelname) == (
        "server lost",
        "WARNING",
        "server back",
        "WARNING",
    )
    assert abs(back.away_s - (back.created - lost.created)) < 0.5


def test_what_goes_wrong_beside_a_handler_is_told_and_tried_again(
    make: Callable[..., Sequencer], records: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep, failures = InFlight.on_tick, [RuntimeError("unforeseen"), DataError("foreign data")]

    def broken(self: InFlight, now: float) -> None:
        if failures:
            raise failures.pop(0)
        keep(self, now)

    monkeypatch.setattr(InFlight, "on_tick", broken)
    seq = make()
    seq.append(1, group="g")
    seq.consume(lambda message: wait_until(lambda: not failures), until_empty=True)
    said = records("renewal failed")
    assert [one.error for one in said] == ["unforeseen", "foreign data"]
    assert [one.levelname for one in said] == ["ERROR", "ERROR"]
    assert [bool(one.exc_info) for one in said] == [True, False], "a traceback where nobody foresaw it"


def test_groups_that_can_not_be_given_back_are_told(
    make: Callable[..., Sequencer], proxy: FaultProxy, records: Any, link: Link, namespace: str
) -> None:
    seq = make(redis=proxy.url)
    make().append(1, group="g")

    def handler(message: Message) -> None:
        proxy.add("request reset", times=None)
        ctrl_c()

    with pytest.raises(KeyboardInterrupt):
        seq.consume(handler)
    (said,) = records("groups not released")
    assert said.levelname == "WARNING"
    link.command("ZADD", shard_keys(namespace, "jobs", 0).schedule, "XX", "1", "g")


def test_a_lease_that_is_lost_beside_a_handler_is_told_while_that_runs(
    make: Callable[..., Sequencer], link: Link, keys: ShardKeys, records: Any
) -> None:
    seq = make()
    seq.append(1, group="g")

    def handler(message: Message) -> None:
        link.command("HSET", keys.leases, "g", "0" * 16 + "0another")
        in_time.append(wait_until(lambda: records("lease lost")))

    in_time: list[Any] = []
    assert seq.consume(handler, lease=0.3, max_messages=1).lost == 1
    assert in_time
    link.command("HDEL", keys.leases, "g")
