"""The fault proxy: each kind of fault as a plain client sees it, and what was carried out at the server."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from sequencer import EmbeddedServer, Sequencer
from sequencer.errors import ServerUnavailable
from sequencer.testing import wait_until
from tests.support.proxy.fault import KINDS
from tests.support.proxy.fault_proxy import FaultProxy
from tests.support.proxy.frames import ERRORS

from ..support.judge.history import Recorder, read_events
from ..support.refused import refused

pytestmark = pytest.mark.nightly

TIMEOUT_S = 1.0
SILENT = ("request dropped", "reply dropped", "black hole")
CLOSED = ("request reset", "request late", "reply lost", "reply cut")
CARRIED_OUT = {
    "request delayed": 1,
    "request dropped": 0,
    "request reset": 0,
    "request late": 1,
    "request repeated": 2,
    "reply dropped": 1,
    "reply lost": 1,
    "reply cut": 1,
    "reply trickled": 1,
    "black hole": 0,
    **{f"error {name}": 0 for name in ERRORS},
}
Client = Callable[[], redis.Redis]


@pytest.fixture
def home() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="sqpx-"))
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def proxy(server: EmbeddedServer, home: Path) -> Iterator[FaultProxy]:
    with FaultProxy(server.url, home / "p", recorder=Recorder(home / "faults")) as proxy:
        yield proxy


@pytest.fixture
def client(proxy: FaultProxy) -> Iterator[Client]:
    """Makes clients that give up soon and repeat nothing by themselves."""
    made: list[redis.Redis] = []

    def client() -> redis.Redis:
        options = {"protocol": 2, "socket_timeout": TIMEOUT_S, "retry": Retry(NoBackoff(), 0)}
        made.append(redis.Redis.from_url(proxy.url, **options))
        return made[-1]

    yield client
    for one in made:
        one.close()


def count(server: EmbeddedServer, key: str) -> int:
    with redis.Redis.from_url(server.url, protocol=2) as direct:
        return int(direct.get(key) or 0)


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_client_sees_of_a_fault(
    kind: str, proxy: FaultProxy, client: Client, server: EmbeddedServer, namespace: str, home: Path
) -> None:
    one, key = client(), f"{namespace}:n"
    digest = one.script_load("return redis.call('INCR', KEYS[1])")
    proxy.add(kind, on=["EVALSHA"], seconds=0.05 if kind != "black hole" else 5)
    began = time.monotonic()
    if kind in SILENT:
        with pytest.raises(redis.TimeoutError):
            one.evalsha(digest, 1, key)
        assert time.monotonic() - began >= TIMEOUT_S * 0.9
    elif kind in CLOSED:
        with pytest.raises(redis.ConnectionError):
            one.evalsha(digest, 1, key)
    elif kind.startswith("error "):
        with pytest.raises(redis.RedisError) as error:
            one.evalsha(digest, 1, key)
        assert str(error.value).encode() in ERRORS[kind.removeprefix("error ")]
    else:
        assert one.evalsha(digest, 1, key) == 1
        assert time.monotonic() - began >= 0.045 or kind == "request repeated"
    one.connection_pool.disconnect()
    proxy.clear()
    assert one.ping(), "the next connection works"
    wait_until(lambda: proxy.effects[kind], what="the fault to be counted")
    wait_until(lambda: proxy.pending == 0)
    assert count(server, key) == CARRIED_OUT[kind]
    assert proxy.effects == {kind: 1}
    (event,) = [event for event in read_events([home / "faults"]) if event.what == "fault"]
    assert (event.kind, event.who) == (kind, str(os.getpid()))
    assert event.at >= began
    assert event.until >= event.at


def test_replies_keep_their_order_where_one_is_injected(
    proxy: FaultProxy, client: Client, server: EmbeddedServer, namespace: str
) -> None:
    one, key = client(), f"{namespace}:n"
    proxy.add("error BUSY", on=["DECRBY"], times=2)
    with one.pipeline(transaction=False) as pipeline:
        for step in (1, -1, 1, -1, 1):
            pipeline.incrby(key, step) if step > 0 else pipeline.decrby(key, -step)
        replies = pipeline.execute(raise_on_error=False)
    assert [reply if isinstance(reply, int) else type(reply) for reply in replies] == [
        1,
        redis.ResponseError,
        2,
        redis.ResponseError,
        3,
    ]


def test_rules_choose_by_name_number_chance_and_process(proxy: FaultProxy, client: Client, namespace: str) -> None:
    one = client()
    proxy.add("error BUSY", on=["INCRBY"], who="1")
    assert one.incr(f"{namespace}:n") == 1
    proxy.clear()
    proxy.add("error BUSY", on=["INCRBY"], times=2)
    for _ in range(2):
        with pytest.raises(redis.ResponseError):
            one.incr(f"{namespace}:n")
    assert one.incr(f"{namespace}:n") == 2
    proxy.add("error BUSY", times=None, chance=0.5)
    answers = [_is_refused(one) for _ in range(200)]
    assert 40 < sum(answers) < 160
    assert proxy.effects["error BUSY"] == 2 + sum(answers)
    with pytest.raises(ValueError, match="rain"):
        proxy.add("rain")


def _is_refused(client: redis.Redis) -> bool:
    try:
        client.ping()
    except redis.ResponseError:
        return True
    return False


def test_scripts_are_known_by_name_and_a_reload_is_seen(
    proxy: FaultProxy, make: Callable[..., Sequencer], home: Path
) -> None:
    seq = make(redis=proxy.url)
    seq.append(0, group="g")
    proxy.add("error NOSCRIPT", on=["append"])
    assert not seq.append(1, group="g").duplicate
    assert proxy.effects == {"error NOSCRIPT": 1, "script reloaded": 1}
    proxy.add("error READONLY", on=["claim"])
    with refused(ServerUnavailable, "is_replica"):
        seq.claim()
    assert [event.kind for event in read_events([home / "faults"]) if event.what == "seen"] == ["script reloaded"]


def test_bytes_pass_unchanged_however_they_are_cut(proxy: FaultProxy, namespace: str, server: EmbeddedServer) -> None:
    body = os.urandom(200_000)
    words = [b"SET", f"{namespace}:b".encode(), body]
    request = b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)
    request += b"*2\r\n$3\r\nGET\r\n$%d\r\n%s\r\n" % (len(words[1]), words[1])
    expected = b"+OK\r\n$%d\r\n%s\r\n" % (len(body), body)
    proxy.add("error BUSY", on=["GETDEL"])  # with a fault to look for, each command is looked at
    with socket.socket(socket.AF_UNIX) as plain:
        plain.connect(proxy.url.removeprefix("unix://"))
        for at in range(0, len(request), 7919):
            plain.sendall(request[at : at + 7919])
        received = b""
        while len(received) < len(expected):
            received += plain.recv(65536)
    assert received == expected


def test_a_black_hole_swallows_what_waits_and_ends_with_the_connection(
    proxy: FaultProxy, server: EmbeddedServer, namespace: str
) -> None:
    """An answer that comes while it is open is lost; when it is over, what it met is closed, and the next one works."""
    key = f"{namespace}:l".encode()
    with socket.socket(socket.AF_UNIX) as waiting, redis.Redis.from_url(server.url, protocol=2) as direct:
        waiting.connect(proxy.url.removeprefix("unix://"))
        waiting.settimeout(5)
        waiting.sendall(b"*3\r\n$5\r\nBLPOP\r\n$%d\r\n%s\r\n$1\r\n9\r\n" % (len(key), key))
        wait_until(lambda: direct.info("clients")["blocked_clients"], what="the wait")
        proxy.add("black hole", seconds=0.3)
        began = time.monotonic()
        direct.rpush(key, "x")
        assert _until_closed(waiting) == b""
        assert 0.25 <= time.monotonic() - began < 3
        assert direct.llen(key) == 0, "it was carried out before"
    wait_until(lambda: proxy.effects["black hole"])
    with redis.Redis.from_url(proxy.url, protocol=2) as after:
        assert after.ping()


def _until_closed(plain: socket.socket) -> bytes:
    received = b""
    try:
        while piece := plain.recv(100):
            received += piece
    except ConnectionResetError:
        pass
    return received
