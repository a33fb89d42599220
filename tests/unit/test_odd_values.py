"""Values that no JSON or Python test list thinks of: each is refused by an error of ours, or comes back as it went in.

Found by `tests/faults/test_input.py`.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import redis.sentinel

import sequencer
from sequencer import Policy, Sequencer, SequencerError
from sequencer.calls.source import script_source
from sequencer.doctor.diagnose import diagnose
from sequencer.errors import (
    ConfigurationError,
    InvalidBody,
    InvalidGroup,
    InvalidId,
    InvalidScore,
    InvalidTime,
    ServerUnavailable,
    shown,
)
from sequencer.net.endpoint import TIMEOUTS, Endpoint, redact
from sequencer.settings.options import QueueOptions
from sequencer.store.envelope import encode_due, encode_envelope, encode_id, encode_score
from sequencer.store.failure import decode_failure, encode_failure
from sequencer.store.group import encode_group
from sequencer.store.record import decode_dead_letter
from sequencer.store.watermark import advance
from sequencer.values.message import Failure

HUGE = 10**5000
"""Python refuses to write it as text (more than 4,300 digits)."""


@dataclass
class Point:
    x: float


class Limit(enum.Enum):
    NONE = float("nan")


class Shape(str, enum.Enum):  # noqa: UP042 - a StrEnum has another str()
    ROUND = "round"
    EMPTY = ""


@pytest.mark.parametrize(
    ("error", "call"),
    [
        (InvalidGroup, lambda: encode_group([HUGE])),
        (InvalidGroup, lambda: encode_group([1.5, HUGE])),
        (InvalidId, lambda: encode_id(HUGE)),
        (InvalidScore, lambda: encode_score(HUGE)),
        (InvalidTime, lambda: encode_due(HUGE, None)),
        (InvalidTime, lambda: encode_due(None, HUGE)),
        (InvalidBody, lambda: encode_envelope(1, {"a": HUGE}, 1000)),  # type: ignore[dict-item]
        (ConfigurationError, lambda: QueueOptions(queue="q", shards=HUGE)),
        (ConfigurationError, lambda: QueueOptions(queue=HUGE)),  # type: ignore[arg-type]
        (ConfigurationError, lambda: Policy(dedup_window=10**400)),
        (ConfigurationError, lambda: Policy(dedup_window=float("nan"))),
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


@pytest.mark.parametrize("body", [Point(float("nan")), {"a": [Point(float("inf"))]}, Limit.NONE, [Limit.NONE]])
def test_nan_in_a_dataclass_or_enum_is_refused(body: Any) -> None:
    with pytest.raises(InvalidBody):
        encode_envelope(body, None, 1000)


def test_an_enum_as_an_id_is_its_value() -> None:
    assert encode_id(Shape.ROUND) == "round"
    with pytest.raises(InvalidId):
        encode_id(Shape.EMPTY)


@pytest.mark.parametrize("url", ["redis://:1234#x@host", "redis://:1234?x@host", "redis://user:4711#!@host/0"])
def test_a_password_that_is_not_escaped_is_not_shown(url: str) -> None:
    assert redact(url) == "redis://***"


@pytest.mark.parametrize("seconds", ["-1", "nan", "inf", "1e300", "86401"])
@pytest.mark.parametrize("name", TIMEOUTS)
def test_a_timeout_of_a_url_that_is_no_time_is_refused(name: str, seconds: str) -> None:
    with pytest.raises(ConfigurationError, match="can't be read; check port, path and options"):
        Endpoint.from_url(f"redis://127.0.0.1:1?{name}={seconds}")


@pytest.mark.parametrize(
    "url", ["redis://h?db=-1", "redis://h?db=99999999999", "unix:///tmp/s?db=-1", "redis://h?db=x"]
)
def test_a_database_that_no_server_has_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="can't be read; check port, path and options"):
        Endpoint.from_url(url)
    assert Endpoint.from_url("redis://h/15").make().db == 15


@pytest.mark.parametrize("url", ["redis://h/abc", "rediss://h:1/0x1", "valkey://h/1/2", "redis://h/-1", "redis://h/1 "])
def test_a_path_that_is_no_number_is_no_database(url: str) -> None:
    """redis-py takes database 0, or for /1/2 database 12."""
    with pytest.raises(ConfigurationError, match=r"names no database: its path must be a number, as in \w+://host/0"):
        Endpoint.from_url(url)


@pytest.mark.parametrize("url", ["redis://h", "redis://h/", "redis://h/0", "redis://h?db=0", "valkey://h:1/0?db=0"])
def test_a_url_without_a_number_is_database_0(url: str) -> None:
    assert Endpoint.from_url(url).make().db == 0


@pytest.mark.slow
def test_errors_of_a_sentinel_client_name_the_primary(monkeypatch: pytest.MonkeyPatch) -> None:
    sentinel: Any = redis.sentinel.Sentinel([("127.0.0.1", 1), ("127.0.0.1", 2)])  # type: ignore[no-untyped-call]
    endpoint = Endpoint.from_client(sentinel.master_for("orders"))
    with pytest.raises(
        ServerUnavailable, match=r"server primary orders \(of Sentinel 127.0.0.1:1, 127.0.0.1:2\) can't"
    ):
        endpoint.connect()
    monkeypatch.setattr(sentinel, "discover_master", lambda name: ("127.0.0.1", 3))
    with pytest.raises(ServerUnavailable, match=r"server primary orders \(127.0.0.1:3\) can't be reached"):
        endpoint.connect()
    assert Endpoint.from_client(sentinel.slave_for("orders")).name == "a replica of orders"


@pytest.mark.parametrize("look", [Sequencer.groups, Sequencer.parked, Sequencer.dead, lambda s, **k: s.peek("g", **k)])
@pytest.mark.parametrize("limit", [0, -1, True, 1.0, "1", None, 10**9 + 1, 10**30])
def test_a_limit_of_a_look_is_a_number_that_redis_can_read(look: Callable[..., Any], limit: Any) -> None:
    if (look, limit) == (Sequencer.parked, None):  # all of them
        return
    with (
        Sequencer("q", "redis://127.0.0.1:1") as seq,
        pytest.raises(ConfigurationError, match=r"limit=.* must be a whole number from 1 to 1000000000"),
    ):
        look(seq, limit=limit)


def test_a_limit_that_can_not_be_written_is_shown() -> None:
    with pytest.raises(ConfigurationError, match=r"limit=an int of \d+ bits must be a whole number from 1"):
        diagnose(Endpoint.from_url("redis://127.0.0.1:1"), "sequencer", limit=-HUGE)


@pytest.mark.parametrize("error", [5, b"x", ["x"], True, ValueError])
@pytest.mark.parametrize(
    "call", [Sequencer.dead, Sequencer.count_dead, Sequencer.redrive, Sequencer.purge], ids=lambda call: call.__name__
)
def test_a_pattern_for_errors_is_text(call: Callable[..., Any], error: Any) -> None:
    with (
        Sequencer("q", "redis://127.0.0.1:1") as seq,
        pytest.raises(ConfigurationError, match=r"error=.* must be text"),
    ):
        call(seq, error=error)


@pytest.mark.parametrize("rate", ["x", 0, -1, True, None, float("nan"), float("inf"), 10**30])
def test_a_rate_is_a_number_of_messages_a_second(rate: Any) -> None:
    with (
        Sequencer("q", "redis://127.0.0.1:1") as seq,
        pytest.raises(ConfigurationError, match=r"rate=.* must be a number of messages a second"),
    ):
        seq.redrive(error="*", rate=rate)


def test_a_control_character_of_a_url_is_not_shown_raw() -> None:
    assert redact("redis://127.0.0.1:1/\x1b[2J") == "redis://127.0.0.1:1/%1B[2J"


@pytest.mark.parametrize("url", ["redis://a..b:1", "redis://" + "a" * 70 + ":1"])
def test_a_host_that_is_no_name_gets_an_error_of_ours(url: str) -> None:
    with pytest.raises(SequencerError, match="can't be reached"):
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


@pytest.mark.parametrize(
    "path", sorted(Path(sequencer.__file__).parent.glob("lua/**/*.lua")), ids=lambda path: path.stem
)
def test_a_total_that_others_overwrote_ends_no_script(path: Path) -> None:
    """It is counted by the pcall of Redis; Lua's own would count nothing."""
    name = path.stem
    is_part = path.parent.name != "lua"
    source = path.read_text(encoding="utf-8") if is_part else script_source(name)
    counts = re.findall(r"(\w+)\('HINCRBY'", source)
    assert set(counts) <= {"pcall", "may"}
    if counts and not is_part:
        bound = re.findall(r"^local ([\w, ]*\bpcall\b[\w, ]*) = (.*)$", source, re.MULTILINE)
        assert len(bound) == 1
        names, values = (text.split(", ") for text in bound[0])
        assert values[names.index("pcall") - len(names)] == "redis.pcall"


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
    with pytest.raises(ConfigurationError, match="must be a"):
        make()
