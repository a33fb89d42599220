"""Checks of single values that callers give; each raises ConfigurationError with the name, the value and the range."""

from __future__ import annotations

import difflib
import fnmatch
import re
from collections.abc import Iterable, Sequence
from typing import Any

from ..errors import ConfigurationError
from .durations import LONGEST_S, seconds
from .message import Failure

MAX_NAME_CHARS = 128
MAX_LIMIT = 10**9
"""The most that one list may ask for: a whole number that Redis can read, and more than a server holds."""

MAX_NAMES = 30
"""Of all that there are, in a text."""

_NUMBER = re.compile(r"\d+")
_NAME = re.compile(r"[A-Za-z0-9_.-]+\Z")


def check_name(what: str, name: object) -> str:
    """A queue's or namespace's name; anything that could end the hash tag or confuse a shell is refused."""
    if not is_name(name):
        raise ConfigurationError("name_invalid", name=what, value=name, most=MAX_NAME_CHARS)
    return name  # type: ignore[return-value]


def is_name(name: object) -> bool:
    """Whether a queue or a namespace may be called so."""
    return isinstance(name, str) and bool(_NAME.match(name)) and len(name) <= MAX_NAME_CHARS


def check_integer(name: str, value: Any, low: int, high: int) -> int:
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if not is_whole or not low <= value <= high or str(value) != str(int(value)):  # an enum's text may be its name
        raise ConfigurationError("not_whole", name=name, value=value, low=low, high=high)
    return value  # type: ignore[no-any-return]


def check_limit(limit: Any) -> None:
    """How long one list may be."""
    check_integer("limit", limit, 1, MAX_LIMIT)


def check_choice(name: str, value: Any, choices: Sequence[str]) -> str:
    if value not in choices:
        raise ConfigurationError("not_a_choice", name=name, value=value, choices=choices)
    return value  # type: ignore[no-any-return]


def check_names(name: str, value: Any, what: str, *, may_be_one: bool = False) -> tuple[str, ...]:
    found = (value,) if may_be_one and isinstance(value, str) else value
    is_list = isinstance(found, list | tuple) and all(isinstance(one, str) and one for one in found)
    if not is_list or (may_be_one and not found):
        raise ConfigurationError("not_a_list", name=name, value=value, items=what)
    return tuple(found)


def seconds_of(name: str, duration: Any, low: float = 0.0, high: float = LONGEST_S) -> float:
    """A duration in seconds, within these bounds."""
    found = seconds(duration)
    if found is None or not low <= found <= high:
        raise ConfigurationError("duration_invalid", name=name, value=duration, low=low, high=high)
    return found


def check_rate(rate: Any) -> float:
    """This many a second. Raises ConfigurationError."""
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 < rate <= 1e6:
        raise ConfigurationError("rate_invalid", value=rate)
    return float(rate)


def near_name(name: str, known: Iterable[str]) -> str:
    """The other name that was perhaps meant, the nearest; "" for none. One that differs in numbers only is no typo."""
    others = [other for other in known if other != name]
    if any(_NUMBER.sub("", other) == _NUMBER.sub("", name) for other in others):
        return ""
    return next(iter(difflib.get_close_matches(name, [one for one in others if _is_typo(name, one)], n=1)), "")


def _is_typo(name: str, other: str) -> bool:
    """Whether one letter is wrong, too many or missing, or two are exchanged; two more behind it are another name."""
    differing = (at for at, (mine, theirs) in enumerate(zip(name, other, strict=False)) if mine != theirs)
    start = next(differing, min(len(name), len(other)))
    short, long = sorted((name[start:], other[start:]), key=len)
    if len(short) < len(long):
        return long[1:] == short
    return short[1:] == long[1:] or (short[:2] == long[1::-1] and short[2:] == long[2:])


def nearest(name: str, known: Iterable[str]) -> dict[str, Any]:
    """Fields of a refusal of an unknown name: the one that was perhaps meant, else what there is."""
    names = list(known)
    if close := difflib.get_close_matches(name, names, n=1):
        return {"meant": close[0]}
    return {"known": names[:MAX_NAMES], "more": max(0, len(names) - MAX_NAMES)}


def check_error(error: object) -> None:
    """What chooses by an error. Raises ConfigurationError."""
    if error is not None and not isinstance(error, str):
        raise ConfigurationError("error_pattern_invalid", value=error)


def fits_error(error: str | None, failure: Failure) -> bool:
    """Whether a failure fits a type, or a pattern for "Type: message"."""
    said = f"{failure.type}: {failure.message}"
    return error is None or error == failure.type or fnmatch.fnmatchcase(said, error)
