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

from sequencer import EmbeddedServer
from sequencer.testing import wait_until
from tests.support.proxy.fault import KINDS
from tests.support.proxy.fault_proxy import FaultProxy
from tests.support.proxy.frames import ERRORS

from ..support.judge.history import Recorder, read_events

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
