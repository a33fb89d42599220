"""A relay, and a server that is full, loses an answer or a queue, refuses a batch, or says no to all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from sequencer import Sequencer
from sequencer.errors import QueueFull, ServerNotUsable, ServerUnavailable
from sequencer.net.link import Link
from sequencer.outbox import relay
from sequencer.testing import wait_until

from ..databases.conftest import Tables
from ..support.changed_script import changed_script
from ..support.databases import SQLite
from ..support.proxy.fault_proxy import FaultProxy


class Box(Tables):
    """An outbox in a file, and its relay."""

    def __init__(self, directory: Path, seq: Sequencer) -> None:
        super().__init__(SQLite(directory), lambda: seq)
        self.seq, self.one = seq, self.relay()

    def settle(self) -> None:
        wait_until(lambda: not self.one.round() and not self.operated.status()[0].unsent)

    def ids(self, group: str = "g") -> list[str]:
        return [message.id for message in self.seq.peek(group, limit=1000)]


Make = Callable[[Sequencer], Box]


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Make]:
    with ExitStack() as stack:
        yield lambda seq: stack.enter_context(closing(Box(tmp_path, seq)))


def test_a_lost_answer_is_no_reason_to_stop(
    box: Make, make: Callable[..., Sequencer], proxy: FaultProxy, namespace: str
) -> None:
    here = box(make(redis=proxy.url))
    here.append("m1")
    here.settle()
    here.append("m2")
    proxy.add("reply lost")
    with pytest.raises(ServerUnavailable):
        here.one.round()
    here.append("m3")
    here.settle()
    assert here.ids() == ["m1", "m2", "m3"]


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
    here = box(Sequencer("jobs", str(admin.endpoint.url)))
    here.append("m1")
    here.settle()
    here.append("m2")
    admin.command(*broken.split())
    with pytest.raises(error):
        here.one.round()
    here.append("m3")
    with pytest.raises(error):
        here.one.round()
    admin.command(*fixed.split())
    here.settle()
    assert (here.ids(), here.operated.held()) == (["m1", "m2", "m3"], [])
    here.seq.close()


def test_what_one_shard_stored_is_not_sent_again_as_another_refused(box: Make, make: Callable[..., Sequencer]) -> None:
    """A score that is no number of a sequence fails its whole batch; those of other shards are stored by then."""
    here = box(make(shards=4, sequence=True, dedup_window=0))
    groups = [f"g{number}" for number in range(16)]
    for group in groups:
        here.append("n1", group=group, score=1)
    here.append("bad", group="g0", score=1.5)
    here.append("after", group="g0", score=2)
    here.one.round()
    assert here.seq.consume(lambda message: None, until_idle=True).handled > 0
    wait_until(lambda: not here.one.round() and here.operated.held())
    here.seq.consume(lambda message: None, until_idle=True)
    assert [row.id for row in here.operated.held()] == ["bad"]
    here.operated.skip("g0", "bad")
    here.settle()
    assert here.ids("g0") == ["after"]
    assert all(here.ids(group) == [] for group in groups[1:])


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
    here = box(make())
    for number in range(20):
        here.seq.append("other", f"g{number}", id="m")
        here.append("m", group=f"g{number}")
    wait_until(lambda: not here.one.round() and len(here.operated.held()) == 20)
    assert sum("rows held" in record.message for record in caplog.records) == lines
    assert here.operated.release("g3") == 1
    assert here.operated.release() == 19
    assert (here.operated.release(), here.operated.status()[0].unsent) == (0, 20)


def test_a_queue_that_was_deleted_is_made_again(box: Make, make: Callable[..., Sequencer]) -> None:
    here = box(make())
    here.append("m1")
    here.settle()
    make().delete()
    here.append("m2")
    here.settle()
    assert here.ids() == ["m1", "m2"]  # what is kept is sent again


@pytest.mark.parametrize("is_fenced", [True, False])
def test_an_older_batch_is_not_stored_again(box: Make, make: Callable[..., Sequencer], is_fenced: bool) -> None:
    """One that was sent before, and handled and forgotten since; without the fence it is there twice."""
    old, new = "if last >= tonumber(number) or", "if"
    with changed_script("append", old, old if is_fenced else new):
        here = box(make(dedup_window=0))
        here.append("m1")
        here.settle()
        here.seq.consume(lambda message: None, until_idle=True)
        other = here.relay()
        other._token = here.one._token
        here.operated._run("UPDATE {p}relays SET since = 1")
        other.round()
        assert here.ids() == ([] if is_fenced else ["m1"])
