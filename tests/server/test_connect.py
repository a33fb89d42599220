"""Which servers are refused and with what words; how clients and URLs of every kind reach a good one."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import fakeredis
import pytest
import redis

import sequencer.net.endpoint
import sequencer.server.embedded
from sequencer import EmbeddedServer, Message, Sequencer
from sequencer.errors import ServerError, ServerNotUsable, ServerUnavailable
from sequencer.net.link import CHECK_EVERY_S, REFRESH_EVERY_S
from sequencer.server import default_directory, find_binary

from ..support.handling import consumed
from ..support.link_clock import stopped_clock
from ..support.refused import refused
from .conftest import command

CANARY = "canary-7f3a"


def first_use(url: str) -> ServerError:
    """The error that a first use of the server raises."""
    with Sequencer("q", url) as seq, pytest.raises(ServerError) as caught:
        seq.append(1, group="g")
    return caught.value


def test_a_server_that_evicts_is_refused(start_server: Callable[..., str]) -> None:
    path = start_server("--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
    assert first_use(f"unix://{path}").code == "is_evicting"
    assert command(path, "RANDOMKEY", default="none") == "none", "nothing was written"


def test_a_server_that_will_evict_is_told_of_once_and_refused_when_it_does(
    start_server: Callable[..., str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path, clock = start_server("--maxmemory-policy", "allkeys-lru"), stopped_clock(monkeypatch)
    with Sequencer("q", f"unix://{path}") as seq:
        for n in range(2):
            seq.append(n, "g")
            clock.now += REFRESH_EVERY_S + 1
        (said,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
        assert "as soon as maxmemory is set; fix: CONFIG SET maxmemory-policy noeviction" in said
        assert said.endswith(f"sequencer doctor --redis unix://{path}")
        command(path, "CONFIG", "SET", "maxmemory", "100mb")
        clock.now += CHECK_EVERY_S + 0.1
        with refused(ServerNotUsable, "is_evicting"):
            seq.append(3, "g")


def test_a_replica_is_refused(start_server: Callable[..., str]) -> None:
    path = start_server("--replicaof", "127.0.0.1 1")
    assert first_use(f"unix://{path}").code == "is_replica"


def test_passwords_missing_and_wrong_are_said_and_never_shown(start_server: Callable[..., str]) -> None:
    assert CANARY not in str(first_use(f"unix://{start_server()}?password={CANARY}")), "it wants none"
    path = start_server("--requirepass", CANARY)
    assert first_use(f"unix://{path}").code == "password_missing"
    error = first_use(f"unix://{path}?password=wrong-{CANARY}")
    assert (type(error), error.code) == (ServerNotUsable, "password_refused")
    assert CANARY not in str(error)
    with Sequencer("q", f"unix://{path}?password={CANARY}") as seq:
        assert CANARY not in repr(seq)
        assert seq.append(1, group="g").duplicate is False


def test_a_user_without_a_right_is_told_which(start_server: Callable[..., str]) -> None:
    path = start_server()
    command(path, "ACL", "SETUSER", "weak", "on", f">{CANARY}", "~*", "&*", "+@all", "-evalsha", "-eval")
    error = first_use(f"unix://weak@{path}?password={CANARY}&username=weak")
    assert (error.code, error.fields["rights"]) == ("rights_missing", ["+eval", "+evalsha"])
    assert CANARY not in str(error)


def test_a_server_that_is_not_there_is_said_with_what_to_do(tmp_path: Path) -> None:
    for url in ("redis://127.0.0.1:1", f"unix://{tmp_path}/none"):
        error = first_use(url)
        assert (type(error), error.code) == (ServerUnavailable, "unreachable")


@pytest.mark.parametrize("options", [{}, {"decode_responses": True}, {"protocol": 3}, {"socket_timeout": 0.5}])
def test_a_clients_own_settings_neither_matter_nor_change(
    server: EmbeddedServer, namespace: str, options: dict[str, Any]
) -> None:
    with redis.Redis(unix_socket_path=str(server.socket), **options) as client:
        before = dict(client.connection_pool.connection_kwargs)
        with Sequencer("q", client, namespace=namespace) as seq:
            seq.append({"ä": 1}, group="é")
            seen = [(message.group, message.body) for message in consumed(seq)]
        assert seen == [(("é",), {"ä": 1})]
        assert dict(client.connection_pool.connection_kwargs) == before
        assert client.ping()


def test_the_main_job_runs_on_fakeredis() -> None:
    client = fakeredis.FakeRedis(server=fakeredis.FakeServer(), version=(7,))
    with client, Sequencer("q", client, max_attempts=2, backoff=0.01) as seq:
        receipt = seq.append_many({"body": n, "group": ["a", n % 3], "id": n, "score": n} for n in range(100))
        assert receipt.appended == 100
        assert seq.append(0, group=["a", 0], id="0", score=0).duplicate
        seen: dict[tuple[str, ...], list[float]] = {}

        def handler(message: Message) -> None:
            if message.group == ("a", "2"):
                raise ValueError("no")
            seen.setdefault(message.group, []).append(message.score)

        summary = seq.consume(handler, until_empty=True)
        assert (summary.handled, summary.failed) == (67, 2)
        assert all(scores == sorted(scores) for scores in seen.values())
        assert [info.group for info in seq.parked()] == [("a", "2")]
        seq.skip(["a", 2])
        with seq.claim() as lease:
            for message in lease:
                lease.ack(message)
        assert seq.info().backlog == 0


# -- the embedded server -----------------------------------------------------------------------------------------


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="sqh-"))
    monkeypatch.setenv("SEQUENCER_HOME", str(directory / "home"))
    yield directory / "home"
    EmbeddedServer(directory / "home").stop()
    shutil.rmtree(directory)


def test_the_embedded_server_warns_once_when_it_is_started(
    home: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert default_directory() == home
    with Sequencer("q") as seq, Sequencer("p") as other:
        assert not home.exists(), "nothing starts at construction"
        seq.append(1, group="g")
        other.append(1, group="g")
    assert [record.levelname for record in caplog.records if "embedded server" in record.message] == ["WARNING"]
    assert f"started an embedded server in {home}; stop it with" in caplog.text
    status = EmbeddedServer().status()
    assert status.is_running, "it goes on for the next process"
    assert EmbeddedServer().stop() is True
    assert EmbeddedServer().stop() is False
    with Sequencer("q") as seq:
        assert seq.info().backlog == 1, "its data was kept"
    assert EmbeddedServer().stop() is True
    caplog.clear()
    monkeypatch.setenv("SEQUENCER_EMBEDDED", "yes")
    with Sequencer("p") as other:
        assert (other.info().backlog, caplog.text) == (1, ""), "=yes silences the warning"


def test_the_embedded_server_is_private_persistent_and_never_evicts(home: Path) -> None:
    with EmbeddedServer() as server:
        assert server.start() is False
        assert oct(home.stat().st_mode)[-3:] == "700"
        assert oct(server.socket.stat().st_mode)[-3:] == "700"
        client = redis.Redis.from_url(server.url)
        wanted = {"appendonly": "yes", "appendfsync": "everysec", "maxmemory-policy": "noeviction", "port": "0"}
        found = {name: client.config_get(name)[name] for name in wanted}
        client.close()
        assert found == wanted
        pid = server.status().pid
        assert pid is not None
        assert os.getsid(pid) != os.getsid(0), "a session of its own: Ctrl-C does not reach it"
    assert server.status().is_running is False


def test_ctrl_c_while_it_starts_leaves_no_server(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server, begun = EmbeddedServer(), list[subprocess.Popen[bytes]]()
    start = subprocess.Popen

    def noted(*words: Any, **options: Any) -> Any:
        begun.append(start(*words, **options))
        monkeypatch.setattr(server, "_info", interrupted)
        return begun[0]

    def interrupted() -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "Popen", noted)
        with pytest.raises(KeyboardInterrupt):
            server.start()
    assert begun[0].poll() is not None, "nobody would end it"
    assert EmbeddedServer().start() is True, "and the next one begins anew"


def test_many_may_start_it_at_once(home: Path) -> None:
    with ThreadPoolExecutor(6) as pool:
        started = [*pool.map(lambda _: EmbeddedServer().start(), range(6))]
    assert sorted(started) == [False] * 5 + [True]


def test_a_long_path_gets_a_short_socket(home: Path) -> None:
    deep = home / ("x" * 60) / ("y" * 60)
    with EmbeddedServer(deep) as server:
        assert len(str(server.socket)) <= 107
        with Sequencer("q", server.url) as seq:
            seq.append(1, group="g")
    assert not server.socket.parent.exists()


@pytest.mark.parametrize("on_path", [None, "6.0.16"])
def test_without_a_usable_binary_the_error_says_what_was_found(
    home: Path, monkeypatch: pytest.MonkeyPatch, on_path: str | None
) -> None:
    home.mkdir()
    fake = home / "redis-server"
    fake.write_text(f"#!/bin/sh\necho 'Redis server v={on_path} sha=0'\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{home}:/bin:/usr/bin")
    monkeypatch.setattr(sequencer.server.embedded, "_packaged_binary", lambda: None)
    monkeypatch.setattr(shutil, "which", lambda name: str(fake) if on_path and name == "redis-server" else None)
    with refused(ServerNotUsable, "no_embedded_server") as caught:
        find_binary()
    assert len(caught.value.fields["found"]) == bool(on_path)


def test_a_server_that_does_not_start_says_why(home: Path) -> None:
    home.mkdir(mode=0o700)
    broken = home / "broken"
    broken.write_text("#!/bin/sh\necho 'no luck today' >&2\nexit 1\n")
    broken.chmod(0o755)
    with refused(ServerUnavailable, "embedded_not_started") as caught:
        EmbeddedServer(binary=str(broken)).start()
    assert "no luck today" in caught.value.fields["said"]


def test_a_server_that_stands_still_gets_no_second_one_beside_it(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequencer.server.embedded, "ANSWER_S", 0.2)
    monkeypatch.setitem(sequencer.net.endpoint.SETTINGS, "socket_timeout", 0.2)
    with EmbeddedServer() as server:
        pid = server.status().pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        try:
            for call in (server.start, server.stop, server.status):
                with refused(ServerUnavailable, "embedded_hangs"):
                    call()
        finally:
            os.kill(pid, signal.SIGCONT)
        assert server.start() is False
        assert server.status().pid == pid
