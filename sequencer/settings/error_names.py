"""Classes of exceptions by their names, as options take them: `ValueError`, `shop.errors.NoStock`. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import combinations
from typing import Any

from ..errors import ConfigurationError, HandlerTimeout


def is_named(error: BaseException, names: Sequence[str]) -> bool:
    """Whether its class or a base is among the names, with module or without. HandlerTimeout has to be named itself."""
    kinds = (HandlerTimeout,) if isinstance(error, HandlerTimeout) else type(error).__mro__
    return bool(names) and any(
        kind.__qualname__ in names or f"{kind.__module__}.{kind.__qualname__}" in names for kind in kinds
    )


def check_listed_once(lists: Mapping[str, Collection[str]]) -> None:
    """Raises ConfigurationError where a name is in two of the lists, which are given by their options."""
    for (one, names), (other, others) in combinations(lists.items(), 2):
        for name in set(names) & set(others):
            raise ConfigurationError("listed_twice", name=name, one=one, other=other)


def error_names(option: str, errors: Any) -> tuple[str, ...]:
    """`park_on` as names: of exception classes, or names given as text. Raises ConfigurationError."""
    if isinstance(errors, str) or not isinstance(errors, list | tuple | set | frozenset):
        raise ConfigurationError("exceptions_invalid", name=option, value=errors)
    return tuple(_error_name(option, error) for error in errors)


def _error_name(option: str, error: Any) -> str:
    if isinstance(error, type) and issubclass(error, BaseException):
        return error.__qualname__ if error.__module__ == "builtins" else f"{error.__module__}.{error.__qualname__}"
    if isinstance(error, str) and error and all(part.isidentifier() for part in error.split(".")):
        return error
    raise ConfigurationError("exceptions_invalid", name=option, value=error)
