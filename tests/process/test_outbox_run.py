"""An outbox by its commands, and in the file of `run`: the process of its relay lives and ends with the pool."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
from pathlib import Path

import pytest

from sequencer import Sequencer
from sequencer.outbox import Outbox
from sequencer.processes.master import relay_process
from sequencer.testing import wait_until

from ..support.processes import children, command_line
from ..support.run_scene import PATIENCE_S, RunScene
from .conftest import Cli
from .test_pools import pool_of

OUTBOX = "outbox = {{ db = 'sqlite:///{}', keep = '1m' }}"


def append(path: Path, *ids: str, group: str = "g") -> None:
    with sqlite3.connect(path) as database:
        Outbox("orders").append_many(database, [{"body": {}, "group": group, "id": name} for name in ids])


def relays() -> list[int]:
    return [pid for pid in children(os.getpid()) if relay_process.MODULE in command_line(pid)]


@pytest.mark.usefixtures("here")
def test_a_relay_runs_beside_its_consumers(
    cli: Cli, scene: RunScene, seq: Sequencer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(relay_process, "AGAIN_S", 0.1)
    path = cli.directory / "shop.db"
    assert cli.call("outbox", "create", "--db", f"sqlite:///{path}").returncode == 0
    append(path, "a", "b")
    scene.write_file("check_every = '0.2s'", orders="n = 1; " + OUTBOX.format("shop.db"), mails="n = 1")
    with scene.master() as master:
        scene.wait_handled("orders", 2)
        (first,) = relays()
        os.kill(first, signal.SIGKILL)
        append(path, "c")
        scene.wait_handled("orders", 3)
        assert any(getattr(one, "error", "").startswith("its process ended") for one in caplog.records)
        wait_until(lambda: pool_of(master, "orders").numbers.outbox, PATIENCE_S, "what waits is reported")
        assert pool_of(master, "mails").numbers.outbox is None
        other = cli.directory / "other.db"
        assert cli.call("outbox", "create", "--db", f"sqlite:///{other}").returncode == 0
        append(other, "d", "e")
        scene.write_file(orders="n = 1; " + OUTBOX.format("other.db"))
        master.reload()
        scene.wait_handled("orders", 5)
        scene.write_file(orders="n = 1")
        master.reload()
        wait_until(lambda: not relays(), PATIENCE_S, "the file names no outbox")
        scene.write_file(orders="n = 1; " + OUTBOX.format("shop.db"))
        master.reload()
        wait_until(relays, PATIENCE_S, "it does again")
    assert not relays()
    assert scene.ids("orders") == ["a", "b", "c", "d", "e"]


def test_what_an_operator_does(cli: Cli, seq: Sequencer) -> None:
    path = cli.directory / "shop.db"
    db = ("--db", f"sqlite:///{path}")
    for words in (["status", "orders"], ["held", "orders"], ["release", "orders"], ["renew", "orders"]):
        done = cli.call("outbox", *words, *db)
        assert done.returncode == 2
        assert "sequencer outbox create" in done.stderr
    assert cli.call("outbox", "status", "orders", "--db", "sqlite:////none/db").returncode == 3
    relay = cli.start("outbox", "relay", "orders", *db)
    relay.wait_for("sequencer outbox create")
    for _ in range(2):
        assert cli.call("outbox", "create", *db).returncode == 0
    orders = Sequencer("orders", seq.endpoint.url, namespace=seq.options.namespace)
    orders.append({"other": 1}, group="g", id="taken")
    append(path, "taken", "b", "c")
    append(path, "d", group="h")

    def shown(command: str, *words: str) -> list[dict[str, object]]:
        done = cli.call("outbox", command, "orders", *words, *db, "--json")
        assert done.returncode == 0, done.stderr
        return list(json.loads(done.stdout))

    held = wait_until(lambda: shown("held"), PATIENCE_S, "it is refused")
    assert held
    assert (held[0]["group"], held[0]["id"]) == (["g"], "taken")
    wait_until(lambda: shown("status")[0]["kept"] == 1, PATIENCE_S, "another group goes on")
    assert (shown("status")[0]["held"], shown("status")[0]["unsent"]) == (1, 2)
    assert cli.call("outbox", "skip", "orders", "g", "--id", "b", *db).returncode == 2
    assert cli.call("outbox", "release", "orders", *db).stdout == "released 1\n"
    wait_until(lambda: shown("held"), PATIENCE_S, "it is refused again")
    assert cli.call("outbox", "skip", "orders", "g", "--id", "taken", *db).stdout == "skipped\n"
    wait_until(lambda: shown("status")[0]["kept"] == 3, PATIENCE_S, "the rest is sent")
    assert [message.id for message in orders.peek("g")] == ["taken", "b", "c"]
    orders.close()
    relay.stop()
    assert relay.stdout == "sent 3\n"
