"""The server's own faults, a little of each, and for each check a negative control that it must find."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import redis

import sequencer
from sequencer import Sequencer, SequencerError
from sequencer.doctor.rights import commands_of
from sequencer.errors import ConfigurationError
from sequencer.testing import wait_until

from ..support.handling import drain
from .server.cut import cut_write
from .server.denied import SCRIPTS, Denier, deny_all
from .server.failover import QUICK, Cluster
from .server.fault_test import CASES, run
from .server.found import Found
from .server.full import Filling, Rounds, fill_and_drain
from .server.host import Host, binaries, free_port, running, workplace
from .server.kill import ALWAYS, Mode, lost_s, under_kills
from .server.writes import HALF, WRITES

pytestmark = pytest.mark.nightly


@pytest.fixture
def directory() -> Iterator[Path]:
    with workplace() as path:
        yield path


@pytest.fixture
def host(directory: Path) -> Iterator[Host]:
    with running(Host(directory / "d")) as host:
        yield host


# -- the append-only file, cut ------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", binaries())
def test_a_cut_write_is_there_or_not(directory: Path, version: str) -> None:
    cuts = cut_write(directory, WRITES["append"], binary=binaries()[version], step=400)
    assert (cuts.partial, cuts.broken) == ([], [])
    assert cuts.before >= 3
    assert cuts.after == 1, "all but the last cut undo it"
    assert cuts.size > 1000


def test_two_commands_in_place_of_a_script_are_found(directory: Path) -> None:
    cuts = cut_write(directory, HALF, step=30)
    assert cuts.partial
    assert "has no place in the order" in cuts.broken[0]


# -- killed -------------------------------------------------------------------------------------------------------


def test_a_server_that_syncs_always_loses_nothing_and_one_that_lies_does(directory: Path) -> None:
    liar = Mode("always, and it lies", ("--appendonly", "yes", "--appendfsync", "no"), cut_s=0.5, may_lose=False)
    with ThreadPoolExecutor(2) as pool:
        honest = pool.submit(under_kills, directory / "a", ALWAYS, 1, 3)
        lying = pool.submit(under_kills, directory / "b", liar, 4, 3)
    judged, _, wrong, is_drained = honest.result()
    assert (judged.losses, judged.disorder, judged.unexplained, wrong, is_drained) == (0, 0, 0, [], True)
    assert judged.effects["server killed"] == 1
    assert judged.messages > 50

    judged, events, _, _ = lying.result()
    assert judged.losses > 0, "messages that were acknowledged and removed are losses"
    assert not judged.is_clean
    found = Found(seed=3, case="kill")
    found.add(judged, said=liar.name)
    assert found.problems
    assert "--only kill --seed 3" in found.problems[0]
    assert 0 < lost_s(events) < 10


# -- full ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", binaries())
def test_a_full_server_refuses_producers_and_lets_consumers_work(directory: Path, version: str) -> None:
    found = Found(seed=1, case="full")
    said: Rounds = fill_and_drain(directory, 1, found, binaries()[version])
    assert (said.wrong, found.problems) == ([], [])
    assert said.refusals == 3
    assert said.stored > 1000
    assert set(said.done_full) >= {"ack", "nack", "park", "dead letter", "renew", "release", "resume"}
    assert set(said.refused_full) == {"append", "redrive", "reschedule"}


def test_messages_that_a_full_server_lost_are_found(host: Host) -> None:
    with host.link() as link:
        filling = Filling(host, link)
        filling.fill()
        link.command("DEL", filling.keys.order("g1"), filling.keys.body("g1"))
        filling.drain()
    assert any("messages were lost" in text for text in filling.said.wrong)


# -- rights -------------------------------------------------------------------------------------------------------


def test_an_append_without_one_of_its_rights_leaves_nothing_half_written(host: Host) -> None:
    with host.link() as link:
        said = deny_all(host, link, {"append": WRITES["append"]})
    assert said.broken == []
    assert said.counts["refused, nothing written"] >= 8, said.counts
    assert said.tried == len(commands_of("append"))


def test_a_half_written_message_is_found(host: Host) -> None:
    with host.link() as link:
        denier = Denier(host, link)
        denier.deny("two commands", HALF, "ZADD")
    assert "has no place in the order" in denier.said.broken[0]


def test_every_script_that_changes_messages_has_a_kind_of_write() -> None:
    scripts = {path.stem for path in Path(sequencer.__file__).parent.glob("lua/*.lua")}
    elsewhere = {"register", "sync_shard", "outage", "wake", "skip_gap", "sweep"}
    elsewhere |= {"alert", "alert_sent", "mark_notified"}
    assert scripts - set(SCRIPTS.values()) == {"find", "inspect", "pending_news", "repair"} | elsewhere, (
        "three read, one is the doctor's"
    )


# -- replicas -----------------------------------------------------------------------------------------------------


def test_appends_that_a_replica_confirms(directory: Path) -> None:
    primary = Host(directory / "a", *QUICK, port=free_port())
    replica = Host(directory / "b", "--replicaof", "127.0.0.1", str(primary.port), port=free_port())
    with running(primary), running(replica):
        wait_until(lambda: replica.info("replication")["master_link_status"] == "up")
        with Sequencer("jobs", primary.url, shards=2, wait_replicas=1, wait_timeout=4.0) as seq:
            assert not seq.append(1, "a").duplicate
            primary.command("SCRIPT", "FLUSH")
            seq.append(2, "a")  # a script that is sent again is waited for again
            assert seq.append_many([{"body": n, "group": f"g{n}"} for n in range(20)]).appended == 20
            primary.kill()
            keys = replica.command("KEYS", "*:body:*")
            assert len(keys) == 21, "all groups are on the replica when append returns"


def test_a_client_of_a_sentinel_finds_the_new_primary(directory: Path) -> None:
    if not shutil.which("redis-sentinel"):
        pytest.skip("redis-sentinel is not installed (apt-get install redis-sentinel)")
    cluster = Cluster(directory, 0.01)
    try:
        sentinel: Any = redis.Sentinel([("127.0.0.1", cluster.sentinel_port)])  # type: ignore[no-untyped-call]
        client = sentinel.master_for("primary")
        with Sequencer("jobs", client, wait_replicas=1) as seq:
            seq.append(1, "a")
            cluster.kill_primary()
            wait_until(cluster.is_promoted)
            with Sequencer("jobs", client) as other:
                wait_until(lambda: _is_appended(other, 2))
                seen = drain(other)
        assert seen[0] == 1
        assert seen[-1] == 2
    finally:
        cluster.close()


def _is_appended(seq: Sequencer, body: int) -> bool:
    try:
        return bool(seq.append(body, "a", id=str(body)))
    except SequencerError:
        return False


# -- together -----------------------------------------------------------------------------------------------------


def test_a_case_is_run_by_its_name() -> None:
    result = run("smoke", only="cut", seed=5)
    assert result.is_passed, result.problems
    assert result.runs >= 8
    assert result.faults["append-only file cut"] == result.runs
    assert result.command == "python -m tests.faults server --scale smoke --only cut --seed 5"
    with pytest.raises(ConfigurationError, match=r"'cuts'; choose from .*kill"):
        run("smoke", only="cuts")
    assert len(CASES) == 5
