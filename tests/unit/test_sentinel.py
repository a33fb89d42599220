"""The URL of a primary behind Sentinels, and which of their answers is believed."""

from __future__ import annotations

from collections.abc import Mapping
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
    parts = Sentinels(url)
    assert (parts.places, parts.primary) == (places, primary)
    assert Endpoint.from_url(url).name == url


@pytest.mark.parametrize("kind", ["redis", "rediss", "valkey", "valkeys"])
def test_sentinels_and_server_have_passwords_of_their_own(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    of_sentinel = "sentinel_username=a&sentinel_password=b%2Bc%26d"
    url = f"{kind}+sentinel://u:p@h/shop/2?socket_timeout=0.5&{of_sentinel}"
    endpoint, asked = Endpoint.from_url(url), list[Any]()
    assert endpoint.sentinels

    def tell(sentinels: Sentinels, place: tuple[str, int], *_: str) -> list[Any]:
        asked.append(sentinels.make(host=place[0], port=place[1], **sentinels.login))
        return [[b"flags", b"master", b"ip", b"10.0.0.1", b"port", b"6380"], [b"10.0.0.1", b"6380"]]

    monkeypatch.setattr(Sentinels, "ask", tell)
    for made in (endpoint.make(), endpoint.make_awaited()):
        assert (made.host, made.port, made.db, made.username, made.password) == ("10.0.0.1", 6380, 2, "u", "p")
    sentinel = asked[0]
    assert (sentinel.host, sentinel.port, sentinel.db) == ("h", 26379, 0)
    assert (sentinel.username, sentinel.password, sentinel.socket_connect_timeout) == ("a", "b+c&d", 0.5)
    assert isinstance(sentinel, redis.SSLConnection) == (kind in ("rediss", "valkeys"))
    assert (endpoint.url, endpoint.total_s) == (url, 0.5)


class Scripted:
    """Connections to Sentinels: what each host answers about flags and address of the primary, or an error."""

    def __init__(self, **answers: Any) -> None:
        self.answers, self.asked, self.open = answers, list[str](), 0

    def __call__(self, *, host: str, **_: Any) -> Scripted:
        self.asked.append(host)
        return self

    def connect(self) -> None:
        self.open += 1
        if isinstance(self.answers[self.asked[-1]], OSError):
            raise self.answers[self.asked[-1]]

    def disconnect(self) -> None:
        self.open = 0

    def send_command(self, _: str, question: str, primary: str) -> None:
        self.question, self.primary = question, primary

    def read_response(self) -> Any:
        answer = self.answers[self.asked[-1]]
        if isinstance(answer, Exception):
            raise answer
        flags, old, now = answer
        return [b"flags", flags, b"ip", old, b"port", b"1"] if self.question == "MASTER" else [now, b"1"]


UP, DOWN = (b"master", b"old", b"old"), (b"s_down,master", b"old", b"old")
FAILING_OVER = b"o_down,master,failover_in_progress", b"old", b"new"
UNKNOWN, GONE = redis.ResponseError("No such master with that name"), ConnectionRefusedError(111, "refused")


@pytest.mark.parametrize(
    ("answers", "asked", "host"),
    [
        ({"a": UP, "b": UP}, "a", "old"),
        ({"a": GONE, "b": UP}, "ab", "old"),
        ({"a": UNKNOWN, "b": UP}, "ab", "old"),
        ({"a": DOWN, "b": FAILING_OVER}, "ab", "new"),
        ({"a": FAILING_OVER, "b": UP}, "a", "new"),
    ],
)
def test_the_first_that_knows_a_primary_that_is_up_is_asked_first_again(
    answers: Mapping[str, Any], asked: str, host: str
) -> None:
    scripted = Scripted(**answers)
    sentinels = Sentinels("redis+sentinel://a,b/shop")
    sentinels.make = scripted
    assert sentinels.place() == sentinels.place() == {"host": host, "port": 1}
    assert "".join(scripted.asked) == asked + asked[-1]
    assert (scripted.primary, scripted.open) == ("shop", 0)


def test_where_none_knows_one_each_reason_is_said() -> None:
    endpoint = Endpoint.from_url("redis+sentinel://:geheim@a,b,c/shop")
    assert endpoint.sentinels
    endpoint.sentinels.make = Scripted(a=GONE, b=UNKNOWN, c=DOWN)
    with refused(ServerUnavailable, "primary_unknown", server="redis+sentinel://***@a,b,c/shop") as caught:
        endpoint.connect()
    assert caught.value.fields["error"].count(";") == 2
