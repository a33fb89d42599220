"""Names, their kinds and signatures as lines of text, in which no name of a module stands."""

from __future__ import annotations

import ast
import builtins
import dataclasses
import inspect
import re
import sys
import textwrap
import typing
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import sequencer
import sequencer.errors
import sequencer.values

PUBLIC = {*sequencer.__all__, *sequencer.errors.__all__, *sequencer.values.__all__}
HANDED = ("Consumer", "Endpoint", "Lease")
"""Users get them and don't make them: how they are made is not public."""
SPECIAL = ("__bool__", "__call__", "__contains__", "__enter__", "__exit__", "__getitem__", "__iter__", "__len__")
ONE_LINE = 3
"""Parameters that stand in one line; of a longer signature each has its own."""


class Names:
    """Describes names; `types` collects what the type aliases mean that stand in signatures."""

    def __init__(self) -> None:
        self.types: dict[str, str] = {}

    def lines(self, prefix: str, things: dict[str, Any]) -> Iterator[str]:
        """Each thing with its kind, and what belongs to it."""
        for name, thing in sorted(things.items()):
            if isinstance(thing, type):
                yield f"{prefix}{name}: {kind_of(thing)}"
                yield from (f"{prefix}{name}{line}" for line in self._members(thing))
            elif callable(thing):
                yield from (f"{prefix}{name}{line}" for line in self._call(thing))
            else:
                yield f"{prefix}{name}: {type(thing).__name__}"

    def _members(self, cls: type) -> Iterator[str]:
        fields = dict(self._fields(cls))
        yield from (f".{name}{rest}" for name, rest in fields.items())
        own = _own(cls)
        made = inspect.getattr_static(cls, "__init__")
        if not fields and cls.__name__ not in HANDED and any(vars(base).get("__init__") is made for base in own):
            yield from self._call(made, is_bound=True)
        names = {name for base in own for name in (*vars(base), *inspect.get_annotations(base), *_assigned(base))}
        for name in sorted(names - fields.keys()):
            if name in SPECIAL or not name.startswith("_"):
                yield from (f".{name}{line}" for line in self._member(cls, name))

    def _fields(self, cls: Any) -> Iterator[tuple[str, str]]:
        """Fields of a dataclass or a named tuple, in their order."""
        if dataclasses.is_dataclass(cls):
            for field in dataclasses.fields(cls):
                default = "" if field.default is dataclasses.MISSING else f" = {field.default!r}"
                if field.default_factory is not dataclasses.MISSING:
                    default = f" = {getattr(field.default_factory, '__name__', '...')}()"
                yield field.name, f": {self._type(field.type, _globals(cls))}{default}"
        for name in getattr(cls, "_fields", ()):
            default = f" = {cls._field_defaults[name]!r}" if name in cls._field_defaults else ""
            owner = next(base for base in cls.__mro__ if name in inspect.get_annotations(base))
            yield name, f": {self._type(owner.__annotations__[name], _globals(owner))}{default}"

    def _member(self, cls: type, name: str) -> Iterator[str]:
        found = inspect.getattr_static(cls, name, None)
        if isinstance(found, property | cached_property):
            function: Any = found.fget if isinstance(found, property) else found.func
            yield f": property -> {self._type(inspect.signature(function).return_annotation, _globals(function))}"
        elif isinstance(found, classmethod | staticmethod):
            if cls.__name__ not in HANDED or isinstance(found, staticmethod):
                yield from self._call(found.__func__, is_bound=isinstance(found, classmethod))
        elif inspect.isfunction(found):
            yield from self._call(found, is_bound=True)
        else:
            yield ": attribute"

    def _call(self, function: Any, *, is_bound: bool = False) -> Iterator[str]:
        signature, known = inspect.signature(function), _globals(function)
        returns = self._type(signature.return_annotation, known)
        parameters = list(signature.parameters.values())[is_bound:]
        texts = [self._parameter(one, known) for one in parameters]
        named = [one.kind is inspect.Parameter.KEYWORD_ONLY for one in parameters]
        if len(texts) <= ONE_LINE:
            if True in named:
                texts.insert(named.index(True), "*")
            yield f"({', '.join(texts)}) -> {returns}"
            return
        yield f"(...) -> {returns}"
        for text, is_named in zip(texts, named, strict=True):
            yield f"(...) takes {'keyword-only ' if is_named else ''}{text}"

    def _parameter(self, one: inspect.Parameter, known: dict[str, Any]) -> str:
        stars = "*" if one.kind is one.VAR_POSITIONAL else "**" if one.kind is one.VAR_KEYWORD else ""
        default = "" if one.default is one.empty else f" = {one.default!r}"
        return f"{stars}{one.name}: {self._type(one.annotation, known)}{default}"

    def _type(self, annotation: Any, known: dict[str, Any]) -> str:
        text = type_text(annotation)
        for name in re.findall(r"[A-Za-z]\w*", text):
            meant = known.get(name)
            if isinstance(meant, typing.TypeVar):
                self.types[name] = f"one {type_text(meant.__bound__ or object)}"
            elif typing.get_origin(meant) is not None:
                self.types[name] = type_text(meant)
        return text


def kind_of(cls: type) -> str:
    """What kind of class it is, with its bases as far as these are public."""
    public = {*PUBLIC, *vars(builtins)} - {"object", "tuple"}
    bases = ", ".join(base.__name__ for base in cls.__bases__ if base.__name__ in public)
    if issubclass(cls, BaseException):
        kind = "error"
    elif dataclasses.is_dataclass(cls):
        options: Any = cls.__dataclass_params__  # type: ignore[attr-defined]  # typeshed does not know it
        only = ", keyword-only" if all(field.kw_only for field in dataclasses.fields(cls)) else ""
        kind = f"{'frozen ' if options.frozen else ''}dataclass{only}"
    else:
        kind = "named tuple" if hasattr(cls, "_fields") else "class"
    return f"{kind} ({bases})" if bases else kind


def type_text(annotation: Any) -> str:
    """A type as it stands in the code, without the names of modules."""
    if annotation is inspect.Parameter.empty:
        return "?"
    if isinstance(annotation, typing.ForwardRef):
        annotation = annotation.__forward_arg__
    if isinstance(annotation, type) and typing.get_origin(annotation) is None:
        annotation = annotation.__name__
    text: str = annotation if isinstance(annotation, str) else repr(annotation)
    return re.sub(r"\b(?:[a-z_]\w*\.)+(?=[A-Za-z])", "", text)


def _own(cls: type) -> list[type]:
    """The class and its bases, as far as they are ours; a base that is public has lines of its own."""
    public = [base for base in cls.__mro__[1:] if base.__name__ in PUBLIC]
    told = {inner for base in public for inner in base.__mro__}
    return [base for base in cls.__mro__ if base.__module__.partition(".")[0] == "sequencer" and base not in told]


def _globals(thing: Any) -> dict[str, Any]:
    return vars(sys.modules[inspect.unwrap(thing).__module__])


def _assigned(cls: type) -> set[str]:
    """The attributes that its `__init__` sets."""
    made = vars(cls).get("__init__")
    if not inspect.isfunction(made) or dataclasses.is_dataclass(cls):
        return set()
    found = ast.walk(ast.parse(textwrap.dedent(inspect.getsource(made))))
    stored = [one for one in found if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store)]
    return {one.attr for one in stored if isinstance(one.value, ast.Name) and one.value.id == "self"}
