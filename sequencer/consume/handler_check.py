"""Whether a function can be a handler."""

from __future__ import annotations

import inspect

from ..drain.effects import Handler
from ..errors import ConfigurationError, HandlerNotFound, shown


def checked_handler(function: Handler) -> Handler:
    """The function, if it can be a handler. Raises HandlerNotFound, ConfigurationError."""
    if not callable(function):
        raise HandlerNotFound(f"handler {shown(function)} is not callable")
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__):
        raise ConfigurationError(
            f"handler {shown(function)} is a coroutine function; this client calls plain functions only"
        )
    return function
