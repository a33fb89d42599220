"""The relay on real databases: one leads, another takes over, and what was refused, lost or restored is put right."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from sequencer import EmbeddedServer, Sequencer
from sequencer.errors import LeaseLost, MessageNotFound, RelayOutdated
from sequencer.net.link import Link
from sequencer.outbox import Inbox, relay
from sequencer.testing import wait_until
from tests.support.databases import Database

from .conftest import Tables

COMMAND = Path(sys.executable).parent / "sequencer"


def ids(seq: Sequencer, group: str = "g") -> list[str]:
    return [message.id for message in seq.peek(group)]


def test_a_delay_counts_from_the_append(tables: Tables, seq: Sequencer) -> None:
    began = time.time()
    tables.append("m", delay=0.3)
    wait_until(lambda: time.time() >= began + 0.4)
    assert tables.relay().round() == 1
    seen = []
    seq.consume(lambda message: seen.append(message.id), until_idle=True)
    assert seen == ["m"]


def test_a_refused_row_is_held_with_the_later_ones_of_its_group(tables: Tables, seq: Sequencer) -> None:
    seq.append({"name": "other"}, "g", id="m3")
    tables.append("m1", "m2", "m3", "m4")
    tables.append(*[f"n{number}" for number in range(10)], group="other")
    one = tables.relay()
    wait_until(lambda: not one.round() and tables.operated.held())
    while one.round():
        pass
    assert (ids(seq), len(ids(seq, "other"))) == (["m3", "m1", "m2"], 10)
    ((group, name, error),) = [(row.group, row.id, row.error) for row in tables.operated.held()]
    assert (group, name, error.partition(":")[0]) == (("g",), "m3", "IdConflict")
    (status,) = tables.operated.status()
    assert (status.unsent, status.held, status.kept) == (1, 1, 12)
    assert tables.operated.release("g") == 1
    assert tables.operated.held() == []
    wait_until(lambda: not one.round() and tables.operated.held(), what="m3 to be refused again")
    with pytest.raises(MessageNotFound):
        tables.operated.skip("g", "m4")
    tables.operated.skip("g", "m3")
    assert one.round() == 1
    assert ids(seq) == ["m3", "m1", "m2", "m4"]


def test_parts_share_the_groups(db: Database, make: Any, seq: Sequencer) -> None:
    tables = Tables(db, make, parts=3)
    for number in range(20):
        tables.append("a", "b", group=f"g{number}")
    counts = [tables.relay(part).round() for part in range(3)]
    assert sum(counts) == 40
    assert min(counts) > 0
    assert all(ids(seq, f"g{number}") == ["a", "b"] for number in range(20))
    assert [status.kept for status in tables.operated.status()] == counts
    tables.close()


def test_rows_are_deleted_once_their_time_is_over(tables: Tables) -> None:
    one = tables.relay(keep=0.0)
    tables.append("m1", "m2")
    assert one.round() == 2
    wait_until(lambda: not one.round() and not tables.rows())


@pytest.fixture
def start(tables: Tables, server: EmbeddedServer, namespace: str) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """Starts `sequencer outbox relay`."""
    started: list[subprocess.Popen[bytes]] = []

    def run() -> subprocess.Popen[bytes]:
        words = ["outbox", "relay", "jobs", "--db", tables.db.url, "--prefix", tables.prefix, "--namespace", namespace]
        started.append(subprocess.Popen([COMMAND, *words, "--redis", server.url]))
        return started[-1]

    yield run
    for one in started:
        one.kill()
        one.wait()


def token(tables: Tables) -> str:
    found = tables.db.query(f"SELECT token FROM {tables.prefix}relays")
    return str(found[0][0]) if found else ""


def test_another_relay_takes_over(tables: Tables, seq: Sequencer, start: Callable[[], subprocess.Popen[bytes]]) -> None:
    """From one that is killed, and from one that is frozen."""
    first = start()
    tables.append("m1")
    wait_until(lambda: ids(seq) == ["m1"], 60)
    leader, second = token(tables), start()
    os.kill(first.pid, signal.SIGSTOP)
    tables.append("m2")
    wait_until(lambda: ids(seq) == ["m1", "m2"], 60)
    assert token(tables) != leader
    leader = token(tables)
    os.kill(first.pid, signal.SIGCONT)
    tables.append("m3")
    wait_until(lambda: ids(seq) == ["m1", "m2", "m3"], 60)
    assert token(tables) == leader
    second.kill()
    tables.append("m4")
    wait_until(lambda: ids(seq) == ["m1", "m2", "m3", "m4"], 60)
    first.terminate()
    assert first.wait(60) == 0


TRIGGER = (
    "CREATE FUNCTION {p}notify() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NOTIFY {p}outbox; RETURN NULL; END'",
    "CREATE TRIGGER {p}notify AFTER INSERT ON {p}outbox EXECUTE FUNCTION {p}notify()",
)


@pytest.mark.nightly
def test_a_trigger_wakes_the_relay(
    databases: Callable[[str], Database], make: Any, seq: Sequencer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "POLL_S", (60.0, 60.0))
    tables = Tables(databases("postgresql"), make)
    tables.append("m1")
    one = tables.relay()
    thread = threading.Thread(target=one.run)
    thread.start()
    wait_until(lambda: ids(seq) == ["m1"], 30)
    tables.append("m2")
    with pytest.raises(AssertionError):
        wait_until(lambda: ids(seq) == ["m1", "m2"], 1)
    for statement in TRIGGER:
        tables.db.query(statement.format(p=tables.prefix))
    tables.append("m3")
    wait_until(lambda: ids(seq) == ["m1", "m2", "m3"], 30)
    one.stop()
    tables.append("m4")
    thread.join(30)
    assert not thread.is_alive()


def test_a_relay_that_ends_leaves_its_place(tables: Tables) -> None:
    first, second = tables.relay(), tables.relay()
    tables.append("b")
    assert first.round() == 1
    tables.append("a")
    assert second.round() == 0, "the first one leads"
    first.stop()
    first.run()
    assert second.round() == 1


def test_one_that_froze_within_a_transaction_holds_up_nobody(tables: Tables, seq: Sequencer) -> None:
    if tables.db.kind == "sqlite":
        pytest.skip("who stands still in a transaction of SQLite stops all writers; see docs")
    first, second = tables.relay(), tables.relay()
    assert first.round() == 0
    tables.append("m1")
    transaction = first._transaction()
    first._save(transaction.__enter__())
    wait_until(lambda: second.round() == 1, 60, "the other one to take over")
    tables.append("m2")
    with suppress(Exception):
        transaction.__exit__(None, None, None)
    with suppress(Exception):
        assert first.round() == 0
    assert second.round() == 1
    assert ids(seq) == ["m1", "m2"]


def test_tables_of_a_backup_are_refused_until_renewed(
    tables: Tables, seq: Sequencer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "LEADS_S", -1.0)
    one = tables.relay()
    tables.append("m1")
    one.round()
    one.round()
    backup = tables.db.query(f"SELECT batch, since, sent FROM {tables.prefix}relays")[0]
    tables.append("m2")
    one.round()
    batch, since, sent = backup
    tables.db.query(f"UPDATE {tables.prefix}relays SET batch = {batch}, since = {since}, sent = '{sent}'")
    tables.db.query(f"UPDATE {tables.prefix}outbox SET batch = 0 WHERE batch > {batch}")
    tables.append("m3")
    with pytest.raises(RelayOutdated) as error:
        tables.relay().round()
    assert (error.value.fields["known"], error.value.fields["stored"]) == (1, 2)
    assert tables.operated.status()[0].unsent == 2
    tables.operated.renew()
    one = tables.relay()
    wait_until(lambda: not one.round() and not tables.operated.status()[0].unsent)
    assert ids(seq) == ["m1", "m2", "m3"]


def test_a_server_that_lost_everything_gets_what_is_not_done_again(tables: Tables, seq: Sequencer, link: Link) -> None:
    one, inbox = tables.relay(keep="until_done"), Inbox(prefix=tables.prefix)
    tables.append("timer", group="t", delay=3600)
    tables.append("m1", "m2", "m3")
    assert one.round() == 4
    connection = tables.db.connect()

    def handle(message: object) -> None:
        assert inbox.first(connection, message)  # type: ignore[arg-type]
        connection.commit()

    seq.consume(handle, max_messages=1)
    connection.close()
    link.command("FLUSHALL")
    tables.append("m4")
    wait_until(lambda: not one.round() and ids(seq) == ["m2", "m3", "m4"])
    assert ids(seq, "t") == ["timer"]


def test_an_older_lease_commits_nothing(tables: Tables, seq: Sequencer) -> None:
    """Also where its transaction had begun, and read, before the newer one committed."""
    inbox = Inbox(prefix=tables.prefix)
    seq.append(1, "g", id="m1")
    (m1,) = seq.peek("g")
    m1 = m1._replace(token=7)
    m2 = m1._replace(id="m2")
    old, new = tables.db.connect(), tables.db.connect()
    assert inbox.first(new, m1)
    new.commit()
    cursor = old.cursor()
    cursor.execute(f"SELECT * FROM {tables.prefix}fences")
    cursor.fetchall()
    assert inbox.first(new, m1._replace(token=8, id="other"))
    new.commit()
    with pytest.raises(LeaseLost):
        inbox.first(old, m2)
    old.rollback()
    assert not inbox.first(old, m1._replace(token=9))
    assert inbox.first(old, m2._replace(token=9))
    old.commit()
    assert inbox.clean(old, "jobs", older_than_s=3600) == 0
    assert sum(iter(lambda: inbox.clean(old, "jobs", older_than_s=-1, limit=1), 0)) == 3
    old.commit()
    old.close()
    new.close()


def test_a_producer_whose_transaction_is_open_does_not_stop_the_relay(tables: Tables, seq: Sequencer) -> None:
    if tables.db.kind == "sqlite":
        pytest.skip("it has one writer")
    tables.append(*[f"m{number}" for number in range(2 * relay.CHUNK)])
    waiting = tables.db.connect()
    for number in range(100):
        tables.outbox.append(waiting, {}, f"open{number}")
    one = tables.relay(keep=0.0)
    assert one.round() == 2 * relay.CHUNK
    wait_until(lambda: not one.round() and not tables.rows())
    waiting.commit()
    waiting.close()
    assert one.round() == 100
