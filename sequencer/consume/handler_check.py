"""Whether a function can be a handler: it takes one message, and has done its work when it returns."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ..drain.effects import Handler
from ..errors import ConfigurationError, HandlerNotFound, shown

KINDS: dict[Callable[[Any], bool], str] = {
    inspect.iscoroutinefunction: "a coroutine function",
    inspect.isasyncgenfunction: "an asynchronous generator function",
    inspect.isgeneratorfunction: "a generator function",
}
"""Functions whose call does none of their work."""


def checked_handler(function: Handler) -> Handler:
    """The function, if it can be a handler. Raises HandlerNotFound, ConfigurationError."""
    if not callable(function):
        raise HandlerNotFound(f"handler {shown(function)} is not callable")
    for is_kind, kind in KINDS.items():
        if is_kind(function) or is_kind(type(function).__call__):
            raise ConfigurationError(f"handler {_name(function)} is {kind}; this client calls plain functions only")
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):  # some functions written in C say nothing of their parameters
        return function
    try:
        signature.bind("the message")
    except TypeError as error:
        raise ConfigurationError(
            f"handler {_name(function)}{signature} can't be called with one argument, the message ({error}); "
            "give it one parameter, and any others a default"
        ) from None
    return function


def _name(function: Any) -> str:
    """As its author calls it, where it has a name."""
    name = getattr(function, "__qualname__", "")
    return f"{function.__module__}.{name}" if name else shown(function)
