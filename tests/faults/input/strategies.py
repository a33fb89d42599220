"""Inputs worth trying: what people pass by mistake, what sits at a limit, and what has broken other programs."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st

Strategy = st.SearchStrategy[Any]


class Colour(enum.Enum):
    """Neither str nor int."""

    RED = "red"


class Shape(str, enum.Enum):  # noqa: UP042 - whose str() is not its value, unlike StrEnum's
    """An enum of text as it was written before StrEnum."""

    ROUND = "round"
    EMPTY = ""


class Size(int, enum.Enum):
    """The same of numbers."""

    SMALL = 1


class Level(enum.IntEnum):
    """An enum of numbers."""

    LOW = 7


class Name(enum.StrEnum):
    """An enum of text."""

    ANN = "ann"


class Word(str):
    """A text with a class of its own, as ORMs and templates return it."""

    __slots__ = ()


@dataclass
class Point:
    """A body that is no dict."""

    x: Any
    y: Any = None


ENUMS = [Colour.RED, Shape.ROUND, Shape.EMPTY, Size.SMALL, Level.LOW, Name.ANN]
EDGES = [0, -1, 2**53, 2**53 + 1, -(2**53), 2**63, 2**64, 10**400, True, False]
NUMBERS = [math.nan, math.inf, -math.inf, -0.0, 5e-324, 1.7976931348623157e308, 0.1, 2.0**53, 1e16]
TEXTS = ["", ":", "%", "%3A", "\n", "\x00", "\x7f", "\ud800", "\udcff", "é", "\u2028", "a" * 512, "é" * 300, "{}", "-1"]
ZONES = [UTC, timezone(timedelta(hours=14)), timezone(-timedelta(hours=23, minutes=59)), None]

texts: Strategy = st.one_of(
    st.sampled_from(TEXTS), st.text(max_size=20), st.text(st.characters(codec=None, exclude_categories=()), max_size=8)
)
huge: Strategy = st.sampled_from([4000, 5000]).map(lambda digits: 10**digits)  # Python writes no more than 4,300 digits
integers: Strategy = st.one_of(st.sampled_from(EDGES), huge, st.integers(-1000, 1000), st.integers())
floats: Strategy = st.one_of(st.sampled_from(NUMBERS), st.floats())
moments: Strategy = st.one_of(
    st.datetimes(timezones=st.sampled_from(ZONES)),
    st.sampled_from([datetime.min, datetime.max, *(datetime.min.replace(tzinfo=zone) for zone in ZONES)]),
    st.sampled_from([datetime.max.replace(tzinfo=zone) for zone in ZONES]),
)
spans: Strategy = st.one_of(st.timedeltas(), st.sampled_from([timedelta.min, timedelta.max, timedelta(-1)]))
odd: Strategy = st.one_of(
    st.sampled_from([None, (), [], {}, object, Ellipsis, b"", b"\xff", Decimal("1.5"), Decimal("NaN"), Fraction(1, 3)]),
    st.sampled_from([1j, {1}, range(3), *ENUMS]),
    st.builds(Word, st.text(max_size=5)),
    st.uuids(),
    moments,
    spans,
)
anything: Strategy = st.one_of(texts, integers, floats, odd)

good_parts: Strategy = st.one_of(
    st.text(min_size=1, max_size=12).filter(bool), st.integers(-(10**20), 10**20), st.uuids()
)
tricky_parts: Strategy = st.text(alphabet=":%3A5a\n", min_size=1, max_size=5)
groups: Strategy = st.one_of(
    st.lists(st.one_of(good_parts, tricky_parts), min_size=1, max_size=4),
    st.lists(anything, max_size=4),
    st.lists(good_parts, max_size=3).map(tuple),
    anything,
)
ids: Strategy = st.one_of(st.text(min_size=1, max_size=12), integers, texts, anything)
scores: Strategy = st.one_of(integers, floats, moments, anything)
times: Strategy = st.one_of(st.none(), floats, integers, moments, spans, texts, moments.map(str), anything)


def _nested(depth: int) -> Any:
    value: Any = 1
    for level in range(depth):
        value = [value] if level % 2 else {"a": value}
    return value


leaves: Strategy = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=10),
    anything,
)
bodies: Strategy = st.one_of(
    st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.lists(inner, max_size=4),
            st.lists(inner, max_size=3).map(tuple),
            st.dictionaries(texts, inner, max_size=4),
            st.dictionaries(st.one_of(texts, integers, st.none()), inner, max_size=2),
            st.builds(Point, inner),
        ),
        max_leaves=12,
    ),
    st.sampled_from([1, 2, 250, 253, 254, 255, 300, 1023, 1024, 2000]).map(_nested),
)
headers: Strategy = st.one_of(
    st.none(),
    st.dictionaries(st.text(max_size=5), st.text(max_size=8), max_size=3),
    st.dictionaries(texts, anything, max_size=2),
    anything,
)

json_bytes: Strategy = st.one_of(
    st.sampled_from([b"", b"[]", b"{}", b"[1]", b'[1,{"a":"b"}]', b"null", b"[[[", b"1e999", b'"\xff"', b"[1,2,3]"]),
    st.binary(max_size=40),
)
digits: Strategy = st.one_of(st.sampled_from([b"0000000000000001", b"9" * 16]), st.binary(min_size=16, max_size=16))
records: Strategy = st.one_of(
    st.builds(
        lambda stamp, attempts, flag, due, rest: stamp + attempts + flag + due + rest,
        digits,
        st.one_of(st.just(b"0000"), st.binary(min_size=4, max_size=4)),
        st.sampled_from([b"0", b"D", b"T", b"R", b"?", b""]),
        st.one_of(st.just(b""), digits),
        json_bytes,
    ),
    st.binary(max_size=60),
)
