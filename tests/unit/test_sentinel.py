"""The URL of a primary behind Sentinels, and which of their answers is believed."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from sequencer.errors import ServerUnavailable
from sequencer.net.endpoint import Endpoint
from sequencer.net.sentinel import Sentinels

from ..support.refused import refused


@pytest.mark.parametrize(
    ("url", "places", "primary"),
    [
        ("redis+sentinel://h1,h2:2/shop", [("h1", 26379), ("h2", 2)], "shop"),
        ("valkey+sentinel://[::1]:3,[::2]/a%20b/0", [("::1", 3), ("::2", 26379)], "a b"),
    ],
)
def test_a_url_names_sentinels_and_primary(url: str, places: Any, primary: str) -> None:
    endpoint = Endpoint.from_url(url)
    assert endpoint.sentinels
    assert (endpoint.sentinels.places, endpoint.sentinels.primary, endpoint.name) == (places, primary, url)


@pytest.mark.parametrize(("kind", "is_tls"), [("redis", False), ("rediss", True), ("valkey", False), ("valkeys", True)])
def test_sentinels_and_server_have_passwords_of_their_own(
    monkeypatch: pytest.MonkeyPatch, kind: str, is_tls: bool
) -> None:
    options = "socket_timeout=0.5&sentinel_username=a&sentinel_password=b%2Bc%26d"
    endpoint, asked = Endpoint.from_url(f"{kind}+sentinel://u:p@h/shop/2?{options}"), list[Any]()

    def tell(sentinels: Sentinels, place: tuple[str, int], *_: str) -> list[Any]:
        asked.append(sentinels.make(place))
        return answers(b"master", b"10.0.0.1", b"10.0.0.1")

    monkeypatch.setattr(Sentinels, "ask", tell)
    for one in (endpoint.make(), endpoint.make_awaited()):
        assert (one.host, one.port, one.db, one.username, one.password) == ("10.0.0.1", 1, 2, "u", "p")
    one = asked[0]
    assert (one.host, one.port, one.db, one.username, one.password) == ("h", 26379, 0, "a", "b+c&d")
    assert (isinstance(one, redis.SSLConnection), one.socket_connect_timeout, endpoint.total_s) == (is_tls, 0.5, 0.5)


def answers(flags: bytes, old: bytes, now: bytes) -> list[Any]:
    """To SENTINEL MASTER and GET-MASTER-ADDR-BY-NAME."""
    return [[b"flags", flags, b"ip", old, b"port", b"1"], [now, b"1"]]


UP, DOWN = answers(b"master", b"old", b"old"), answers(b"s_down,master", b"old", b"old")
FAILING_OVER = answers(b"o_down,master,failover_in_progress", b"old", b"new")
UNKNOWN, GONE = (ServerUnavailable("unreachable", server="s", error=text) for text in ("No such master", "refused"))


def scripted(monkeypatch: pytest.MonkeyPatch, **answers: Any) -> list[str]:
    """What each host answers; which were asked."""
    asked = list[str]()

    def tell(_: Sentinels, place: tuple[str, int], *__: str) -> Any:
        asked.append(place[0])
        if isinstance(answer := answers[place[0]], Exception):
            raise answer
        return answer

    monkeypatch.setattr(Sentinels, "ask", tell)
    return asked


@pytest.mark.parametrize(
    ("one", "other", "asked", "host"),
    [
        (UP, UP, "aa", "old"),
        (GONE, UP, "abb", "old"),
        (UNKNOWN, UP, "abb", "old"),
        (DOWN, FAILING_OVER, "abb", "new"),
        (FAILING_OVER, UP, "aa", "new"),
    ],
)
def test_the_first_that_knows_a_primary_that_is_up_is_asked_first_again(
    monkeypatch: pytest.MonkeyPatch, one: Any, other: Any, asked: str, host: str
) -> None:
    told, sentinels = scripted(monkeypatch, a=one, b=other), Endpoint.from_url("redis+sentinel://a,b/shop").sentinels
    assert sentinels
    assert sentinels.place() == sentinels.place() == {"host": host, "port": 1}
    assert "".join(told) == asked


def test_where_none_knows_one_each_reason_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    scripted(monkeypatch, a=GONE, b=UNKNOWN, c=DOWN)
    with refused(ServerUnavailable, "primary_unknown", server="redis+sentinel://***@a,b,c/shop") as caught:
        Endpoint.from_url("redis+sentinel://:geheim@a,b,c/shop").connect()
    assert caught.value.fields["error"].count(";") == 2
