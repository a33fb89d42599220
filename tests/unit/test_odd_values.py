"""Values that no JSON or Python test list thinks of: each is refused by an error of ours, or comes back as it went in.

Found by `tests/faults/test_input.py`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import pytest
import redis.asyncio.sentinel
import redis.sentinel

from sequencer import Policy, Sequencer, SequencerError
from sequencer.errors import (
    ConfigurationError,
    InvalidBody,
    InvalidId,
    InvalidScore,
    InvalidTime,
    ServerUnavailable,
    shown,
)
from sequencer.net.endpoint import TIMEOUTS, Endpoint
from sequencer.settings.options import QueueOptions
from sequencer.store.envelope import encode_due, encode_envelope, encode_id, encode_score
from sequencer.store.failure import decode_failure, encode_failure
from sequencer.store.record import decode_dead_letter
from sequencer.store.watermark import advance
from sequencer.values.message import Failure

from ..support.refused import refused

HUGE = 10**5000
"""Python refuses to write it as text (more than 4,300 digits)."""


class Shape(str, enum.Enum):  # noqa: UP042 - a StrEnum has another str()
    ROUND = "round"
    EMPTY = ""


@pytest.mark.parametrize(
    ("error", "call"),
    [
        (InvalidScore, lambda: encode_score(HUGE)),
        (InvalidTime, lambda: encode_due(HUGE, None)),
        (InvalidBody, lambda: encode_envelope(1, {"a": HUGE}, 1000)),  # type: ignore[dict-item]
        (ConfigurationError, lambda: QueueOptions(queue="q", shards=HUGE)),
        (ConfigurationError, lambda: QueueOptions(queue=HUGE)),  # type: ignore[arg-type]
        (ConfigurationError, lambda: Policy(dedup_window=10**400)),
        (ConfigurationError, lambda: Sequencer("q", "redis://x", group_by=-1)),  # type: ignore[arg-type]
    ],
)
def test_numbers_that_are_too_large_get_an_error_of_ours(error: type[Exception], call: Callable[[], Any]) -> None:
    with pytest.raises(error) as caught:
        call()
    assert isinstance(caught.value, SequencerError)


def test_whatever_a_value_is_it_can_be_shown() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    assert shown("a") == "'a'"
    assert shown(HUGE) == f"an int of {HUGE.bit_length()} bits"
    assert shown(Broken()) == "a Broken"
    assert len(shown("x" * 10_000)) < 210


def test_an_enum_as_an_id_is_its_value() -> None:
    assert encode_id(Shape.ROUND) == "round"
    with refused(InvalidId, "identifier_invalid"):
        encode_id(Shape.EMPTY)


@pytest.mark.parametrize(
    "url",
    [
        *(f"redis://h?{name}={seconds}" for name in TIMEOUTS for seconds in ("-1", "nan", "inf", "86401")),
        *("redis://h?db=-1", "redis://h?db=99999999999", "unix:///tmp/s?db=-1", "redis://h?db=x"),
        *("redis://h/abc", "rediss://h:1/0x1", "valkey://h/1/2", "redis://h/-1", "redis://h/1 "),
    ],
)
def test_a_url_with_a_wrong_timeout_or_database_is_refused(url: str) -> None:
    """redis-py takes database 0 for a path that is not a number, and 12 for /1/2."""
    with pytest.raises(ConfigurationError):
        Endpoint.from_url(url)
    assert [Endpoint.from_url(f"redis://h{path}").make().db for path in ("", "/", "?db=0", "/15")] == [0, 0, 0, 15]


@pytest.mark.parametrize("kind", [redis.sentinel.Sentinel, redis.asyncio.sentinel.Sentinel])
def test_errors_of_a_sentinel_client_name_sentinels_and_primary(kind: Any) -> None:
    client = kind([("127.0.0.1", 1), ("127.0.0.1", 2)], sentinel_kwargs={"password": "geheim"}).master_for("orders")
    endpoint = Endpoint.from_client(client)
    assert endpoint.sentinels
    assert endpoint.sentinels.make(("h", 1)).password == "geheim"
    with refused(ServerUnavailable, "primary_unknown", server="127.0.0.1:1,127.0.0.1:2/orders"):
        endpoint.connect()


@pytest.mark.parametrize("look", [Sequencer.groups, Sequencer.parked, Sequencer.dead, lambda s, **k: s.peek("g", **k)])
@pytest.mark.parametrize("limit", [0, -1, True, 1.0, "1", None, 10**9 + 1, 10**30])
def test_a_limit_of_a_look_is_a_number_that_redis_can_read(look: Callable[..., Any], limit: Any) -> None:
    if (look, limit) == (Sequencer.parked, None):  # all of them
        return
    with (
        Sequencer("q", "redis://127.0.0.1:1") as seq,
        refused(ConfigurationError, "not_whole", name="limit", high=10**9),
    ):
        look(seq, limit=limit)


@pytest.mark.parametrize("url", ["redis://a..b:1", "redis://" + "a" * 70 + ":1"])
def test_a_host_that_is_no_name_gets_an_error_of_ours(url: str) -> None:
    with refused(ServerUnavailable, "unreachable"):
        Endpoint.from_url(url).connect()


def test_a_failure_of_a_message_with_a_foreign_id_can_be_kept() -> None:
    failure = Failure("\udcff", "ValueError", "no", "", 1, 1.0, "me")
    assert decode_failure(encode_failure(failure, "0000000000000001\udcff")) == (failure, "0000000000000001\udcff")


@pytest.mark.parametrize("score", ["inf", "-inf", "nan"])
def test_a_score_of_others_moves_no_watermark_of_a_sequence(score: str) -> None:
    assert advance("#3", [score]) == "#3"


@pytest.mark.parametrize("kept", [b"", b"\x10", b"\xff", b"x\n{}\n", b"nan\n\xff\n\xff", b"1\n{}\n" + b"0" * 21])
@pytest.mark.parametrize("letter", ["", "x", "0000000000000001g\nm"])
def test_a_dead_letter_is_shown_whatever_is_left_of_it(kept: bytes, letter: str) -> None:
    assert decode_dead_letter(letter, kept, 1.0, "q").letter == letter


class Size(int, enum.Enum):
    SMALL = 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: Policy(dedup_cap=Size.SMALL),
        lambda: QueueOptions(queue="q", park_on=0),  # type: ignore[arg-type]
        lambda: QueueOptions(queue="q", dead_letter_on=("ValueError", 1)),  # type: ignore[arg-type]
    ],
)
def test_an_option_of_another_kind_is_refused_before_it_is_written_anywhere(make: Callable[[], Any]) -> None:
    """An enum's text is its name, and would have stood in the server as the queue's policy."""
    with pytest.raises(ConfigurationError):
        make()
