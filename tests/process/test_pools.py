"""What a master does about its pools: down and back, hanging consumers, their number, the user's check."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from sequencer import Sequencer
from sequencer.processes.master import kept_pool, scaling
from sequencer.processes.master.kept_pool import KeptPool
from sequencer.processes.master.master import Master
from sequencer.processes.master.status import ask
from sequencer.testing import wait_until

from ..support.run_scene import PATIENCE_S, RunScene
from .conftest import Cli

pytestmark = pytest.mark.usefixtures("here")


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Scaling that does not take minutes, and is told."""
    caplog.set_level(logging.INFO, "sequencer.supervisor")
    monkeypatch.setattr(scaling, "REST_S", 0.2)
    monkeypatch.setattr(scaling, "QUIET_S", 1.0)


def pool_of(master: Master, queue: str) -> KeptPool:
    return next(pool for pool in master.pools if pool.queue == queue)


def test_a_queue_whose_consumers_die_is_down_and_the_others_go_on(
    cli: Cli, scene: RunScene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(kept_pool, "STANDING_RETRY_S", 0.5)
    (cli.directory / "dead.py").write_text(
        "import os\nif not os.path.exists('fixed'):\n    os._exit(7)\nfrom shop import mails\n"
    )
    (cli.directory / "gone.py").write_text("import os\nassert os.path.exists('fixed')\nfrom shop import bills\n")
    scene.write_file(
        "check_every = '0.2s'", orders="n = 1", mails="n = 2; app = 'dead:mails'", bills="app = 'gone:bills'"
    )
    scene.append("mails", [{}])
    scene.append("bills", [{}])
    with scene.master() as master:
        wait_until(lambda: pool_of(master, "mails").is_down, PATIENCE_S, "mails are down")
        wait_until(lambda: pool_of(master, "bills").is_down, PATIENCE_S, "and bills, whose code does not load")
        assert fields_of(caplog, "pool down", "mails")["deaths"] == 2
        assert fields_of(caplog, "pool down", "bills")["deaths"] == 1, "it ended once, and no other was tried"
        told = ask(master.plan.path)
        assert told["processes"] == sum(len(pool["processes"]) for pool in told["pools"]), "who waits does not run"
        tried = pool_of(master, "mails").totals.started
        wait_until(lambda: pool_of(master, "mails").totals.started >= tried + 2, PATIENCE_S, "it is retried")
        scene.append("orders", [{}])
        scene.wait_handled("orders", 1)
        fields_of(caplog, "pool down", "mails")
        cli.open("fixed")
        scene.wait_handled("mails", 1)
        scene.wait_handled("bills", 1)
        wait_until(lambda: not any(pool.is_down for pool in master.pools), PATIENCE_S, "they are back")
        wait_until(lambda: len(pool_of(master, "mails").pids) == 2, PATIENCE_S, "with all their consumers")
        assert fields_of(caplog, "pool back", "mails")


def test_a_consumer_that_hangs_past_its_time_is_released_and_then_killed(
    scene: RunScene, caplog: pytest.LogCaptureFixture
) -> None:
    """One waits, and can be interrupted; the other swallows that. The message of each loses an attempt."""
    words = "n = 1; lease = '2s'; max_age = '1s'; hang_after = '0.5s'"
    scene.write_file(orders=words, mails=words)
    scene.append("orders", [{"gate": "gate"}])
    scene.append("mails", [{}, {"stubborn": True}])  # it is claimed together with another

    def attempts(queue: str, message_id: str) -> list[int]:
        return [event["attempt"] for event in scene.events(queue, "begun") if event["id"] == message_id]

    with scene.master() as master:
        wait_until(lambda: attempts("orders", "m0") and attempts("mails", "m1"), PATIENCE_S, "both hang")
        first = {pool.queue: pool.pids for pool in master.pools}
        wait_until(lambda: len(attempts("orders", "m0")) == 2, PATIENCE_S, "another has the message")
        wait_until(lambda: len(attempts("mails", "m1")) == 2, PATIENCE_S, "also where it had to be killed")
        assert attempts("orders", "m0")[:2] == attempts("mails", "m1")[:2] == [1, 2]
        assert all(not set(first[pool.queue]) & set(pool.pids) for pool in master.pools)
        (scene.directory / "gate").touch()
        scene.wait_handled("orders", 1)
    assert records(caplog, "consumer overdue", "orders")
    assert not records(caplog, "consumer killed", "orders"), "it ended when it was told to"
    assert records(caplog, "consumer killed", "mails")[0].why == "overdue"


def test_more_consumers_while_groups_wait_and_fewer_when_there_is_nothing_to_do(
    scene: RunScene, hasty: None, caplog: pytest.LogCaptureFixture
) -> None:
    scene.write_file("check_every = '0.1s'", orders="n = 1; max = 3; wait = '0.2s'", mails="n = 0")
    scene.append("orders", [{"gate": "gate"}] * 6)
    with scene.master() as master:
        orders, mails = master.pools
        wait_until(lambda: len(scene.ids("orders", "begun")) == 3, PATIENCE_S, "three at once")
        assert (orders.size, mails.size) == (3, 0)
        (scene.directory / "gate").touch()
        scene.wait_handled("orders", 6)
        wait_until(lambda: orders.size == 1, PATIENCE_S, "back at n")
        scene.append("mails", [{}])
        scene.wait_handled("mails", 1)
        wait_until(lambda: mails.size == 0, PATIENCE_S, "none again")
        assert (orders.totals.died, orders.totals.killed) == (0, 0)
    scaled = [(one.before, one.now) for one in records(caplog, "pool scaled", "orders")]
    assert (scaled[0], scaled[-1]) == ((1, 2), (2, 1))


def test_who_leaves_finishes_its_message_and_one_hot_group_gets_no_second_consumer(
    scene: RunScene, hasty: None
) -> None:
    scene.write_file(
        "check_every = '0.1s'", orders="n = 1; max = 4; wait = '0.2s'", mails="n = 1; max = 2; wait = '0.2s'"
    )
    scene.append("orders", [{"seconds": 0.002}] * 600, group="hot")
    scene.append("mails", [{"gate": "gate"}] * 2)
    with scene.master() as master:
        orders, mails = master.pools
        wait_until(lambda: len(scene.ids("mails", "begun")) == 2, PATIENCE_S, "two at once")
        youngest = max(mails.running, key=lambda one: one[1].started_at)
        youngest[1].send_stage(1)
        youngest[0].is_leaving = True
        scene.wait_handled("orders", 600)
        assert orders.totals.started == 1, "one group is handled by one consumer"
        assert mails.size == 2, "it counts until it is gone"
        (scene.directory / "gate").touch()
        scene.wait_handled("mails", 2)
        wait_until(lambda: mails.size == 1, PATIENCE_S, "it is gone")
    assert len(scene.ids("mails", "begun")) == 2, "nothing was interrupted"


def test_a_queue_that_grows_leaves_room_for_the_others(scene: RunScene, hasty: None) -> None:
    top = "check_every = '0.1s'\nmax_processes = 4"
    scene.write_file(top, orders="n = 1; max = 4; wait = '0.1s'", mails="n = 0", bills="n = 0")
    scene.append("orders", [{"seconds": 0.2}] * 150)
    with scene.master() as master:
        orders = pool_of(master, "orders")
        wait_until(lambda: orders.size == 2, PATIENCE_S, "it has what the others need not have")
        scene.append("mails", [{}])
        scene.append("bills", [{}])
        scene.wait_handled("mails", 1)
        scene.wait_handled("bills", 1)
        assert len(scene.ids("orders")) < 150
        assert (orders.size, master.room() >= 0) == (2, True)
        master.stop()


@pytest.mark.nightly
def test_a_reload_with_other_queues_starts_no_more_than_the_host_may_run(scene: RunScene, hasty: None) -> None:
    top = "check_every = '0.1s'\nmax_processes = 2"
    scene.write_file(top, orders="n = 2")
    scene.append("orders", [{"gate": "gate"}] * 2)
    with scene.master() as master:
        wait_until(lambda: len(scene.ids("orders", "begun")) == 2, PATIENCE_S, "both are in progress")
        scene.write_file(top, mails="n = 2")
        scene.append("mails", [{}])
        master.reload()
        wait_until(lambda: len(master.pools) == 2, PATIENCE_S, "the file is read")
        until = time.monotonic() + 0.5
        wait_until(lambda: master.room() or time.monotonic() > until, PATIENCE_S)
        assert (master.room(), len(master.pids)) == (0, 2)
        (scene.directory / "gate").touch()
        scene.wait_handled("mails", 1)
        wait_until(lambda: pool_of(master, "mails").size == 2, PATIENCE_S, "it has both")
        assert master.room() == 0


def records(caplog: pytest.LogCaptureFixture, event: str, queue: str) -> list[Any]:
    return [one for one in caplog.records if (getattr(one, "event", ""), getattr(one, "queue", "")) == (event, queue)]


def fields_of(caplog: pytest.LogCaptureFixture, event: str, queue: str) -> dict[str, Any]:
    """Of an event that was logged once."""
    (one,) = records(caplog, event, queue)
    return dict(vars(one))


def test_what_the_check_of_a_queue_returns_is_told_once(
    scene: RunScene, make: Callable[..., Sequencer], caplog: pytest.LogCaptureFixture
) -> None:
    (scene.directory / "odd.py").write_text(
        "import time\n"
        "def wrong(look):\n    raise ValueError('no such table')\n"
        "def number(look):\n    return look.due + 5\n"
        "def hangs(look):\n    time.sleep(1000)\n"
    )
    scene.write_file(
        "check_every = '0.1s'",
        orders="n = 0; check = 'shop:look'",
        mails="n = 0; check = 'odd:wrong'",
        bills="n = 0; check = 'odd:number'",
        notes="n = 0; exec = 'true'; check = 'odd:nothing'",
        others="n = 1; exec = 'true'; check = 'odd:hangs'",
    )
    orders = make("orders")
    orders.append({}, group="a")
    with orders.claim() as lease:
        lease.park(next(iter(lease)), "no")
    with scene.master() as master:
        for text in (
            "orders: check failed: 1 parked",
            "mails: check failed: ValueError: no such table",
            "bills: check failed: odd:number returned 5",
            "notes: check failed: check: module 'odd' has no 'nothing'",
        ):
            wait_until(partial(lambda said: said in caplog.text, text), PATIENCE_S, text)
        make("others").append({}, group="a")
        wait_until(lambda: make("others").info().totals["handled"] == 1, PATIENCE_S, "a check that hangs halts nobody")
        assert fields_of(caplog, "check failed", "orders")
        assert len(master.pids) == 1
