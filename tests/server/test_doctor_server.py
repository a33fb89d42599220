"""What doctor says of a server: whether it may be used, what a crash may lose, rights, clocks, a full memory."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import sequencer
from sequencer import Finding, Sequencer
from sequencer.doctor.diagnose import diagnose, is_healthy
from sequencer.doctor.rights import SCRATCH, plain_commands
from sequencer.doctor.server import memory_findings, parse_info, server_findings
from sequencer.errors import QueueFull
from sequencer.net.endpoint import Endpoint
from sequencer.net.link import Link
from sequencer.store.keys import shard_keys

from ..support.redis_cli import stand_in_for_redis_cli
from .conftest import command


def looked_at(path: str, queue: str | None = None, user: str = "") -> dict[str, list[Finding]]:
    found: dict[str, list[Finding]] = {}
    for one in diagnose(Endpoint.from_url(f"unix://{user}{path}"), "sequencer", queue):
        found.setdefault(one.check, []).append(one)
    return found


def test_a_server_that_a_client_refuses_is_examined(start_server: Callable[..., str]) -> None:
    path = start_server("--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
    assert [one.code for one in looked_at(path)["eviction"]] == ["evicts"]
    command(path, "CONFIG", "SET", "maxmemory-policy", "volatile-lru")
    assert [one.code for one in looked_at(path)["eviction"]] == ["volatile eviction"]
    command(path, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    command(path, "CONFIG", "SET", "maxmemory", "0")
    assert [one.code for one in looked_at(path)["eviction"]] == ["will evict"]
    replica = looked_at(start_server("--replicaof", "127.0.0.1 1"))
    assert [one.code for one in replica["role"]] == ["replica"]
    assert [one.code for one in replica["queues"]] == ["not checked"]
    assert "rights" not in replica


INFO = {"redis_version": "7.2.4", "role": "master", "maxmemory_policy": "noeviction", "aof_enabled": "1"}
CONFIG = {"appendfsync": "everysec", "save": "", "min-replicas-to-write": "0"}


@pytest.mark.parametrize(
    ("info", "config", "ahead_s", "code"),
    [
        ({"valkey_version": "9.1.2"}, {}, 0.0, "version"),
        ({"redis_version": "6.2.16"}, {}, 0.0, "too old"),
        ({"cluster_enabled": "1"}, {}, 0.0, "cluster"),
        ({"role": "slave"}, {}, 0.0, "replica"),
        ({"loading": "1"}, {}, 0.0, "loading"),
        ({"maxmemory": "90", "used_memory": "81"}, {}, 0.0, "memory nearly full"),
        ({"maxmemory": "90", "used_memory": "90"}, {}, 0.0, "memory full"),
        ({}, {"appendfsync": "always"}, 0.0, "append-only file"),
        ({}, {"appendfsync": "no"}, 0.0, "append-only file without fsync"),
        ({"aof_enabled": "0"}, {"save": None}, 0.0, "snapshots"),
        ({"aof_last_write_status": "err"}, {}, 0.0, "disk write failed"),
        ({"connected_slaves": "2"}, {}, 0.0, "replicas may lag"),
        ({"connected_slaves": "2"}, {"min-replicas-to-write": "1"}, 0.0, "replicas"),
        ({}, {"min-replicas-to-write": "1"}, 0.0, "too few replicas"),
        ({}, {}, -90.0, "server clock off"),
        ({}, {}, 0.5, "server clock"),
    ],
)
def test_what_info_settings_and_clock_say(
    info: dict[str, str], config: dict[str, str | None], ahead_s: float, code: str
) -> None:
    settings_ = {name: value for name, value in (CONFIG | config).items() if value is not None}
    found = list(server_findings(INFO | info, settings_, ahead_s))
    (one,) = [one for one in found if one.code == code]
    assert all(other.level == "ok" for other in found if other.check != one.check)


def test_a_server_that_hides_info_is_said() -> None:
    (finding,) = server_findings({}, {}, 0.0)
    assert finding.code == "info denied"


def test_each_missing_right_is_named(start_server: Callable[..., str]) -> None:
    path = start_server()
    keys = shard_keys("sequencer", "jobs", SCRATCH)
    names = sorted({str(words[0]).lower() for words in plain_commands(keys)} - {"client", "xinfo"} | {"evalsha"})
    for name in names:
        rules = ("on", "nopass", "~*", "&*", "+@all", f"-{name}")
        command(path, "ACL", "SETUSER", f"no-{name}", *rules)
    command(path, "ACL", "SETUSER", "keyless", "on", "nopass", "~{sequencer:other:*", "+@all")
    for name in names:
        (finding, *more) = looked_at(path, "jobs", f"no-{name}:x@")["rights"]
        assert more == []
        assert (finding.code, finding.fields["rights"]) == ("rights missing", f"+{name}")
    (finding,) = looked_at(path, "jobs", "keyless:x@")["rights"]
    assert finding.fields["rights"] == "~sequencer:queues ~{sequencer:jobs:*"
    (finding,) = looked_at(path, "jobs")["rights"]
    assert finding.level == "ok"
    assert command(path, "KEYS", "*", default=True) is True, "nothing is left behind"


def test_a_clock_set_back_is_said_and_a_full_server_is_examined(start_server: Callable[..., str]) -> None:
    path = start_server()
    with Sequencer("jobs", f"unix://{path}") as seq:
        seq.append(1, group="g", id="a")
        keys = shard_keys("sequencer", "jobs", 0)
        now = int(seq.append(2, group="g", id="b").stamp or 0)
        command(path, "SET", keys.clock, str(now + 60_000_000))
        clock = looked_at(path)["clock"]
        assert [one.code for one in clock] == ["server clock", "shard clock ahead"]
        assert 59 < clock[1].fields["ahead_s"] <= 60
        command(path, "CONFIG", "SET", "maxmemory", "1")
        full = looked_at(path)
        assert {one.level for check in ("rights", "invariants") for one in full[check]} == {"ok"}


def test_every_command_of_a_script_is_tried(link: Link, namespace: str) -> None:
    folder = Path(sequencer.__file__).parent / "lua"
    used = {name for path in folder.rglob("*.lua") for name in re.findall(r"call\('([A-Z]+)'", path.read_text())}
    assert len(used) > 25
    commands = plain_commands(shard_keys(namespace, "jobs", SCRATCH))
    assert used <= {words[0] for words in commands}
    for words in commands:
        link.command(*words)


def test_a_queue_that_the_registry_lost_is_found_by_its_keys(
    make: Callable[..., Sequencer], link: Link, namespace: str
) -> None:
    seq = make(shards=3)
    for n in range(9):
        seq.append(n, group=n)
    link.command("HDEL", f"{namespace}:queues", "jobs")
    assert make().info().backlog == 9, "nothing but lists of queues believes the index"
    for repair in (False, True):
        found = diagnose(link.endpoint, namespace, repair=repair)
        (lost,) = [one for one in found if one.check == "queues" and one.level == "problem"]
        assert (lost.code, lost.repaired) == ("not in index", repair)
    assert make().info().backlog == 9


def test_a_dispatch_list_of_another_type_is_deleted(make: Callable[..., Sequencer], link: Link, namespace: str) -> None:
    seq, keys = make(), shard_keys(namespace, "jobs", 0)
    seq.append(1, group="g")
    link.command("DEL", keys.dispatch)
    link.command("SET", keys.dispatch, "foreign")
    link.command("ZREM", keys.schedule, "g")
    found = diagnose(link.endpoint, namespace, "jobs", repair=True)
    assert is_healthy(found)
    assert "wrong type" in [one.code for one in found if one.repaired]
    assert seq.consume(lambda message: None, until_empty=True).handled == 1


def of_once(seq: Sequencer) -> Iterator[Finding]:
    return (one for one in seq.doctor() if one.code.startswith("once "))


@pytest.mark.parametrize("on_unresolved", ["dead_letter", "park"])
def test_it_knows_of_steps_that_run_once_by_what_waits(start_server: Callable[..., str], on_unresolved: Any) -> None:
    path = start_server()
    with Sequencer("gifts", f"unix://{path}", on_unresolved=on_unresolved) as seq:
        seq.append(1, group="g", id="a")
        assert list(of_once(seq)) == [], "none has begun"

        @seq.step(once=True)
        def charge(message: Any) -> None:
            raise ValueError("declined")

        seq.consume(until_empty=True)
        (found,) = of_once(seq)
        assert (found.code, found.fields["queue"]) == ("once without append-only file", "gifts")
        assert found.commands["fix"].endswith(" CONFIG SET appendonly yes")
        command(path, "CONFIG", "SET", "appendonly", "yes")
        (found,) = of_once(seq)
        assert found.code == "once with fsync each second"
        for fsync, codes in (("no", ["once without fsync"]), ("always", [])):
            command(path, "CONFIG", "SET", "appendfsync", fsync)
            assert [one.code for one in of_once(seq)] == codes


@pytest.mark.parametrize(
    ("used", "refusals", "code"),
    [
        ("97", "count=1204", "memory full"),
        ("94", "count=7", "memory nearly full"),
        ("45", "count=7", "memory refused"),
        ("97", "", "memory nearly full"),
        ("45", "odd", "memory"),
    ],
)
def test_a_server_that_has_refused_commands_says_how_many(used: str, refusals: str, code: str) -> None:
    """`INFO errorstats`, which a bare INFO has too, counts them."""
    info = {"maxmemory": "100", "used_memory": used} | ({"errorstat_OOM": refusals} if refusals else {})
    [finding] = memory_findings(info, "redis-cli")
    assert finding.code == code
    assert finding.fields["refused"] == int(refusals.removeprefix("count=") or 0 if refusals != "odd" else 0)


def test_an_append_that_was_refused_is_a_problem_while_there_is_hardly_room(start_server: Callable[..., str]) -> None:
    path = start_server()
    with Sequencer("jobs", f"unix://{path}") as seq:
        seq.append(1, group="g")
        command(path, "SETRANGE", "filling", "20000000", "x")
        command(path, "CONFIG", "SET", "maxmemory", "1")
        with pytest.raises(QueueFull):
            seq.append(2, group="g")
        said = command(path, "INFO", "memory")
        assert isinstance(said, bytes)
        used = int(parse_info(said.decode())["used_memory"])
        command(path, "CONFIG", "SET", "maxmemory", str(int(used * 1.03)))
        seq.append(2, group="g")
        [memory] = looked_at(path)["memory"]
        assert (memory.code, memory.fields["refused"], is_healthy([memory])) == ("memory full", 1, False)
        assert "CONFIG SET maxmemory " in memory.commands["fix"]
        command(path, "CONFIG", "SET", "maxmemory", "100mb")
        [memory] = looked_at(path)["memory"]
        assert memory.code == "memory refused"
        assert memory.commands["reset"].endswith("CONFIG RESETSTAT")
        command(path, "CONFIG", "RESETSTAT")
        assert [one.level for one in looked_at(path)["memory"]] == ["ok"]


def test_the_line_that_makes_room_can_be_run(
    start_server: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = start_server()
    command(path, "CONFIG", "SET", "maxmemory", "1")
    monkeypatch.setenv("PATH", f"{tmp_path}:/nowhere")
    stand_in_for_redis_cli(tmp_path)
    [memory] = looked_at(path)["memory"]
    line = memory.commands["fix"]
    assert line.startswith(f"redis-cli -s {path} CONFIG ")
    subprocess.run(["/bin/sh", "-c", line], check=True, capture_output=True)
    [memory] = looked_at(path)["memory"]
    assert memory.code == "memory refused", "doctor itself was refused"
