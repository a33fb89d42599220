"""What can be a handler, a step or a check: it takes a message, and has done its work when it returns. Pure."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from ...errors import ConfigurationError, HandlerNotFound, shown
from ...settings.options import MAX_CLAIMED
from ...values.checks import check_integer
from ...values.message import Message

Handler = Callable[[Message], Any]

NOT_PLAIN = inspect.isasyncgenfunction, inspect.isgeneratorfunction
"""Functions whose call does none of their work."""
STEPS = "steps"
"""How the second parameter of a handler is called: nothing else tells it from one that the caller meant to fill."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function of a step or of its check."""

    function: Callable[..., Any]
    takes_call: bool = True

    def __call__(self, message: Any, call: Any) -> Any:
        return self.function(message, call) if self.takes_call else self.function(message)


class InlineHandler(Function):
    """A handler that runs steps as it goes: it takes the message, and InlineSteps."""


@dataclass(frozen=True, slots=True)
class BatchHandler(Function):
    """A handler that takes a Batch of at most `size` messages."""

    size: int = 1

    def __call__(self, message: Any, call: Any) -> Any:
        return self.function(call)


def batch_handler(function: Callable[..., Any], size: int) -> BatchHandler:
    """The handler of batches of at most this size. Raises as `checked_handler`."""
    check_integer("batch", size, 1, MAX_CLAIMED)
    checked = checked_handler(function)
    if isinstance(checked, InlineHandler):
        raise ConfigurationError("batch_with_steps", function=_as_called(function))
    return BatchHandler(checked, size=size)


def checked_handler(function: Callable[..., Any]) -> Handler | InlineHandler | BatchHandler:
    """The function, if it can be a handler, with steps or without. Raises HandlerNotFound, ConfigurationError."""
    if isinstance(function, InlineHandler | BatchHandler):
        return function
    _check_kind(function, "handler")
    if takes(function, 1):
        return cast(Handler, function)
    if takes(function, 2):
        signature = signature_of(function)
        name = [*signature.parameters][1] if signature else STEPS
        if name != STEPS:
            raise ConfigurationError("second_parameter", function=_as_called(function), parameter=name, steps=STEPS)
        return InlineHandler(function)
    raise ConfigurationError("parameters_invalid", role="handler", function=_as_called(function))


def checked_step(function: Callable[..., Any], role: str) -> Function:
    """The function of a step or a check, which may take a StepCall too. Raises as `checked_handler`."""
    _check_kind(function, role)
    if (takes_call := takes(function, 2)) or takes(function, 1):
        return Function(function, takes_call)
    raise ConfigurationError("parameters_invalid", role=role, function=_as_called(function))


def is_coroutine(function: Any) -> bool:
    """Whether its call gives a coroutine, which an event loop runs."""
    function = function.function if isinstance(function, Function) else function
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def _check_kind(function: Any, role: str) -> None:
    if not callable(function):
        raise HandlerNotFound("not_callable", role=role, value=function)
    if any(is_one(function) or is_one(type(function).__call__) for is_one in NOT_PLAIN):
        raise ConfigurationError("not_plain", role=role, function=name_of(function))


def signature_of(function: Callable[..., Any]) -> inspect.Signature | None:
    """As it says itself; a wrapper that takes anything is as what it wraps. None: some functions written in C."""
    try:
        own = inspect.signature(function, follow_wrapped=False)
        takes_any = any(one.kind is inspect.Parameter.VAR_POSITIONAL for one in own.parameters.values())
        return inspect.signature(function) if takes_any else own
    except (ValueError, TypeError):
        return None


def takes(function: Callable[..., Any], count: int) -> bool:
    """Whether it can be called with this many arguments."""
    signature = signature_of(function)
    try:
        return count == 1 if signature is None else bool(signature.bind(*range(count)))
    except TypeError:
        return False


def _as_called(function: Any) -> str:
    return f"{name_of(function)}{inspect.signature(function, follow_wrapped=False)}"


def name_of(function: Any) -> str:
    """As its author calls it, where it has a name."""
    name = getattr(function, "__qualname__", "")
    return f"{function.__module__}.{name}" if name else shown(function)
