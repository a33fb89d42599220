"""Values that no JSON or Python test list thinks of: each is refused by an error of ours, or comes back as it went in.

Found by `python -m sequencer.faults input`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from sequencer import (
    ConfigurationError,
    InvalidBody,
    InvalidGroup,
    InvalidId,
    InvalidScore,
    InvalidTime,
    Policy,
    Sequencer,
    SequencerError,
)
from sequencer.codec import decode_letter, encode_due, encode_envelope, encode_id, encode_score
from sequencer.connection import Endpoint, redact
from sequencer.errors import shown
from sequencer.keys import encode_group
from sequencer.message import Failure
from sequencer.options import QueueOptions
from sequencer.policy import advance
from sequencer.words import decode_failure, encode_failure

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
        (ConfigurationError, lambda: QueueOptions(queue="q", lanes=HUGE)),
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
    assert decode_letter(letter, kept, 1.0, "q").letter == letter
