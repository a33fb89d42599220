"""Where in a value lies what JSON has no word for. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import orjson

from ..errors import shown


def has_non_finite(value: Any) -> bool:
    """Whether it holds NaN or infinity."""
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, Mapping):
        return any(has_non_finite(item) for item in value.values())
    if isinstance(value, list | tuple):
        return any(has_non_finite(item) for item in value)
    if isinstance(value, Enum):
        return has_non_finite(value.value)
    if is_dataclass(value):
        return any(has_non_finite(getattr(value, field.name)) for field in fields(value))
    return False


def json_fault(value: Any, otherwise: object = "") -> str:
    """The first fault, with its path: `lines[1].price: Decimal`; `otherwise` where none is found, as where a value
    contains itself.
    """
    try:
        return next(_faults(value, ""), str(otherwise))
    except RecursionError:
        return str(otherwise)


def cure_of(value: Any) -> str:
    """What makes JSON types of a model, as the end of a sentence; "" for what is none."""
    kind = type(value)
    if hasattr(kind, "model_dump"):
        return '; pass its model_dump(mode="json")'
    if hasattr(kind, "__struct_fields__"):
        return "; pass msgspec.to_builtins() of it"
    return "; pass dataclasses.asdict() of it" if is_dataclass(kind) else ""


def _dotted(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _faults(value: Any, path: str) -> Iterator[str]:
    """As orjson reads it: a subclass of tuple is not a list to it."""
    if isinstance(value, dict):
        for key, item in value.items():
            if type(key) is not str:
                yield f"{path or 'it'} has the key {shown(key)}, which is {type(key).__name__}; keys are str"
            else:
                name = _dotted(path, key) if key.isidentifier() else f"{path}[{shown(key)}]"
                yield from _faults(item, name)
    elif isinstance(value, list) or type(value) is tuple:
        for at, item in enumerate(value):
            yield from _faults(item, f"{path}[{at}]")
    elif isinstance(value, Enum):
        yield from _faults(value.value, path)
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from _faults(getattr(value, field.name), _dotted(path, field.name))
    elif isinstance(value, float) and not math.isfinite(value):
        yield f"{path or 'it'}: {value}"
    else:
        try:
            orjson.dumps(value)
        except (TypeError, ValueError) as error:
            reason = "" if "not JSON serializable" in str(error) else f" ({error})"
            yield f"{path or 'it'}: {type(value).__name__}{reason}{cure_of(value)}"
