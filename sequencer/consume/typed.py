"""Bodies as the type that a function names for them: `def handle(message: Message[Order])`.

msgspec converts to a Struct, a dataclass, a TypedDict and what is built of them, pydantic to its models. Each is
imported when a function names such a type, and not before.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, TypeVar, get_args, get_origin

from ..drain.steps.functions import is_coroutine, name_of, signature_of
from ..errors import BodyInvalid, ConfigurationError
from ..values.batch import Batch
from ..values.message import Message

Convert = Callable[[Any], Any]
"""Makes a body what a function wants. Raises BodyInvalid."""


def typed(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, for messages as they are stored. Where it names no type, that is itself."""
    if (convert := converter_of(function)) is None:
        return function

    def fitted(given: Any) -> Any:
        if isinstance(given, Batch):
            given.fit(fitted)
            return given
        return given._replace(body=convert(given.body))

    @functools.wraps(function)
    def call(message: Any, *given: Any) -> Any:
        return function(fitted(message), *given)

    @functools.wraps(function)
    async def call_awaited(message: Any, *given: Any) -> Any:
        return await function(fitted(message), *given)

    return call_awaited if is_coroutine(function) else call


def converter_of(function: Callable[..., Any]) -> Convert | None:
    """What makes a body of the type that this function names; None: it names none. Raises ConfigurationError."""
    signature = signature_of(function)
    first = next(iter(signature.parameters.values()), None) if signature else None
    annotation = first.annotation if first else Any
    if isinstance(annotation, str):  # without brackets it names no type, and may be there for type checkers alone
        annotation = _evaluated(annotation, function) if "[" in annotation else Any
    kind = _body_type(annotation)
    if kind in (Any, object) or isinstance(kind, TypeVar):
        return None
    try:
        is_of_pydantic = any(hasattr(part, "__pydantic_validator__") for part in _parts(kind))
        return _by_pydantic(kind) if is_of_pydantic else _by_msgspec(kind)
    except TypeError as error:
        about = {"function": name_of(function), "type": _shown(kind), "error": str(error)}
        raise ConfigurationError("body_type_invalid", **about) from error


def _evaluated(annotation: str, function: Any) -> Any:
    inner = inspect.unwrap(function)
    while isinstance(inner, functools.partial):
        inner = inspect.unwrap(inner.func)
    inner = getattr(inner, "__func__", inner)
    try:
        return eval(annotation, getattr(inner, "__globals__", None) or type(inner).__call__.__globals__)
    except Exception as error:
        about = {"function": name_of(function), "annotation": annotation, "error": str(error)}
        raise ConfigurationError("annotation_unreadable", **about) from error


def _body_type(annotation: Any) -> Any:
    """Order of `Message[Order]`, of `Batch[Order]`, and of a sequence of messages."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin in (Message, Batch):
        return parts[0]
    return _body_type(parts[0]) if origin in (Annotated, Sequence, list) and parts else Any


def _parts(kind: Any) -> Iterator[Any]:
    """A type, and those it is built of: of `list[Order] | None` Order, too."""
    yield kind
    for part in get_args(kind):
        yield from _parts(part)


def _shown(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) and not get_args(kind) else str(kind)


@functools.cache
def _by_msgspec(kind: Any) -> Convert:
    """Raises TypeError."""
    from msgspec import ValidationError, convert
    from msgspec.inspect import CustomType, type_info

    if isinstance(type_info(kind), CustomType):
        raise TypeError

    def converted(body: Any) -> Any:
        try:
            return convert(body, kind, str_keys=True)
        except ValidationError as error:
            problem, _, path = str(error).replace("`", "").partition(" - at ")
            raise BodyInvalid(type=_shown(kind), problem=problem, path=path or "$") from error.__cause__

    return converted


@functools.cache
def _by_pydantic(kind: Any) -> Convert:
    from pydantic import TypeAdapter, ValidationError

    validate = TypeAdapter(kind).validate_python

    def converted(body: Any) -> Any:
        try:
            return validate(body)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in first["loc"])
            raise BodyInvalid(type=_shown(kind), problem=first["msg"], path="$" + "".join(steps)) from None

    return converted
