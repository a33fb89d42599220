"""A relay, and a server that is full, loses an answer or a queue, refuses a batch, or says no to all."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sequencer import Sequencer
from sequencer.errors import QueueFull, ServerNotUsable, ServerUnavailable
from sequencer.net.link import Link
from sequencer.outbox import Outbox, Relay, relay
from sequencer.outbox.operate import Operated
from sequencer.testing import wait_until
from tests.support.changed_script import changed_script
from tests.support.own_server import client
from tests.support.proxy.fault_proxy import FaultProxy


class Box:
    """An outbox in a file, and its relay."""

    def __init__(self, path: Path, seq: Sequencer) -> None:
        self.path, self.outbox, self.seq = path, Outbox(seq.queue), seq
        self.operated = Operated(self.connect, seq.queue)
        self.operated.create()
        self.relay = Relay(self.connect, seq)

    def connect(self) -> Any:
        return sqlite3.connect(self.path)

    def append(self, *names: str, group: str = "g", **arguments: Any) -> None:
        with self.connect() as connection:
            for name in names:
                self.outbox.append(connection, {"text": "x" * 100}, group, id=name, **arguments)
        connection.close()

    def settle(self) -> None:
        wait_until(lambda: not self.relay.round() and not self.operated.status()[0].unsent)

    def ids(self, group: str = "g") -> list[str]:
        return [message.id for message in self.seq.peek(group, limit=1000)]


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Callable[[Sequencer], Box]]:
    made: list[Box] = []

    def make(seq: Sequencer) -> Box:
        made.append(Box(tmp_path / f"{len(made)}.db", seq))
        return made[-1]

    yield make
    for one in made:
        one.relay._close()


Make = Callable[[Sequencer], Box]


def test_a_lost_answer_is_no_reason_to_stop(
    box: Make, make: Callable[..., Sequencer], proxy: FaultProxy, namespace: str
) -> None:
    one = box(make(redis=proxy.url))
    one.append("m1")
    one.settle()
    one.append("m2")
    proxy.add("reply lost")
    with pytest.raises(ServerUnavailable):
        one.relay.round()
    one.append("m3")
    one.settle()
    assert one.ids() == ["m1", "m2", "m3"]


@pytest.mark.parametrize(
    ("broken", "fixed", "error"),
    [
        ("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0", QueueFull),
        ("ACL SETUSER default -evalsha -eval -fcall", "ACL SETUSER default +@all", ServerNotUsable),
    ],
)
def test_a_server_that_refuses_all_is_waited_for(
    box: Make, admin: Link, broken: str, fixed: str, error: type[Exception]
) -> None:
    one = box(client(admin))
    one.append("m1")
    one.settle()
    one.append("m2")
    admin.command(*broken.split())
    with pytest.raises(error):
        one.relay.round()
    one.append("m3")
    with pytest.raises(error):
        one.relay.round()
    admin.command(*fixed.split())
    one.settle()
    assert (one.ids(), one.operated.held()) == (["m1", "m2", "m3"], [])
    one.seq.close()


def test_what_one_shard_stored_is_not_sent_again_as_another_refused(box: Make, make: Callable[..., Sequencer]) -> None:
    """A score that is no number of a sequence fails its whole batch; those of other shards are stored by then."""
    one = box(make(shards=4, sequence=True, dedup_window=0))
    groups = [f"g{number}" for number in range(16)]
    for group in groups:
        one.append("n1", group=group, score=1)
    one.append("bad", group="g0", score=1.5)
    one.append("after", group="g0", score=2)
    one.relay.round()
    assert one.seq.consume(lambda message: None, until_idle=True).handled > 0
    wait_until(lambda: not one.relay.round() and one.operated.held())
    one.seq.consume(lambda message: None, until_idle=True)
    assert [row.id for row in one.operated.held()] == ["bad"]
    one.operated.skip("g0", "bad")
    one.settle()
    assert one.ids("g0") == ["after"]
    assert all(one.ids(group) == [] for group in groups[1:])


@pytest.mark.parametrize(("pause_s", "lines"), [(relay.HELD_LOG_S, 1), (-1.0, 20)])
def test_many_refused_rows_are_one_line_and_one_release(
    box: Make,
    make: Callable[..., Sequencer],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    pause_s: float,
    lines: int,
) -> None:
    monkeypatch.setattr(relay, "HELD_LOG_S", pause_s)
    one = box(make())
    for number in range(20):
        one.seq.append("other", f"g{number}", id="m")
        one.append("m", group=f"g{number}")
    wait_until(lambda: not one.relay.round() and len(one.operated.held()) == 20)
    assert sum("rows held" in record.message for record in caplog.records) == lines
    assert one.operated.release("g3") == 1
    assert one.operated.release() == 19
    assert (one.operated.release(), one.operated.status()[0].unsent) == (0, 20)


def test_a_queue_that_was_deleted_is_made_again(box: Make, make: Callable[..., Sequencer]) -> None:
    one = box(make())
    one.append("m1")
    one.settle()
    make().delete()
    one.append("m2")
    one.settle()
    assert one.ids() == ["m1", "m2"]  # what is kept is sent again


@pytest.mark.parametrize("is_fenced", [True, False])
def test_an_older_batch_is_not_stored_again(box: Make, make: Callable[..., Sequencer], is_fenced: bool) -> None:
    """One that was sent before, and handled and forgotten since; without the fence it is there twice."""
    old, new = "if last >= tonumber(number) or", "if"
    with changed_script("append", old, old if is_fenced else new):
        one = box(make(dedup_window=0))
        one.append("m1")
        one.settle()
        one.seq.consume(lambda message: None, until_idle=True)
        other = Relay(one.connect, one.seq)
        other._token = one.relay._token
        one.operated._run("UPDATE {p}relays SET since = 1")
        other.round()
        other._close()
        assert one.ids() == ([] if is_fenced else ["m1"])
