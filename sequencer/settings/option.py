"""What an option is: one field of a dataclass, declared with its kind, default and help.

Its keyword argument, its option of a command, its key in a file, its variable, its check and its row in the reference
come from that field. For static typing alone the keyword has one line more, in a TypedDict beside the dataclass.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, ClassVar, Literal, TypeVar, get_args

from ..errors import ConfigurationError, shown
from ..values.checks import check_choice, check_integer, check_name, nearest, seconds_of
from ..values.durations import LONGEST_S
from .error_names import error_names

Taker = Literal["append", "configure", "consume", "run"]
"""What takes an option: a command, or, as `run`, the file of `sequencer run`."""
Takers = tuple[Taker, ...]
DefaultT = TypeVar("DefaultT")
FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Kind:
    """Which values an option takes."""

    word: ClassVar[str]
    """What a value is, in the reference."""

    @property
    def bounds(self) -> str:
        """In the reference; "" for none."""
        return ""

    def read(self, name: str, value: Any) -> Any:
        """What is kept of a value; that too is read, as the same. Raises ConfigurationError."""
        raise NotImplementedError

    def split(self, text: str) -> Any:
        """A value from the text of a command line."""
        return text


@dataclass(frozen=True, slots=True)
class Whole(Kind):
    word = "whole number"
    low: int
    high: int

    @property
    def bounds(self) -> str:
        return f"{self.low:,} to {self.high:,}"

    def read(self, name: str, value: Any) -> int:
        check_integer(name, value, self.low, self.high)
        return value  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class Share(Kind):
    """A part of something."""

    word = "number"

    @property
    def bounds(self) -> str:
        return "0 to 1"

    def read(self, name: str, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            raise ConfigurationError(f"{name}={shown(value)} must be a number from 0 to 1")
        return value


@dataclass(frozen=True, slots=True)
class Seconds(Kind):
    word = "duration"
    low: float = 0.0
    high: float = LONGEST_S

    @property
    def bounds(self) -> str:
        return f"from {brief(self.low)}" + (f" to {brief(self.high)}" if self.high < LONGEST_S else "")

    def read(self, name: str, value: Any) -> float:
        return seconds_of(name, value, self.low, self.high)


@dataclass(frozen=True, slots=True)
class Choice(Kind):
    word = "one of"
    literal: Any

    @property
    def bounds(self) -> str:
        return ", ".join(get_args(self.literal))

    def read(self, name: str, value: Any) -> str:
        check_choice(name, value, get_args(self.literal))
        return value  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class Flag(Kind):
    word = "true or false"

    def read(self, name: str, value: Any) -> bool:
        if not isinstance(value, bool):
            raise ConfigurationError(f"{name}={shown(value)} must be true or false")
        return value


@dataclass(frozen=True, slots=True)
class Text(Kind):
    word = "text"
    what: str = "text"
    is_secret: bool = False
    """Whether no error shows it."""

    def read(self, name: str, value: Any) -> str:
        if not isinstance(value, str) or not value.strip() or "\0" in value:
            raise ConfigurationError(f"{name}{'' if self.is_secret else f'={shown(value)}'} must be {self.what}")
        return value


@dataclass(frozen=True, slots=True)
class Name(Kind):
    """Of a queue or a namespace."""

    word = "name"

    def read(self, name: str, value: Any) -> str:
        return check_name(name, value)


@dataclass(frozen=True, slots=True)
class Names(Kind):
    word = "names"
    what: str
    may_be_one: bool = False
    """Whether one name may stand for a list of it, which then may not be empty."""

    def read(self, name: str, value: Any) -> tuple[str, ...]:
        found = (value,) if self.may_be_one and isinstance(value, str) else value
        is_list = isinstance(found, list | tuple) and all(isinstance(one, str) and one for one in found)
        if not is_list or (self.may_be_one and not found):
            raise ConfigurationError(f"{name}={shown(value)} must be a list of {self.what}")
        return tuple(found)

    def split(self, text: str) -> Any:
        return tuple(one.strip() for one in text.split(",")) if text.strip() else ()


@dataclass(frozen=True, slots=True)
class Errors(Names):
    """Classes of exceptions, or their names; kept as names."""

    what: str = "exceptions"

    def read(self, name: str, value: Any) -> tuple[str, ...]:
        return error_names(name, value)


@dataclass(frozen=True, slots=True)
class Texts(Kind):
    """Names and texts, which may be secrets; None leaves out what is there by that name."""

    word = "table of texts"

    def read(self, name: str, value: Any) -> Mapping[str, str | None]:
        if not isinstance(value, Mapping) or not all(isinstance(one, str | None) for one in value.values()):
            raise ConfigurationError(f"{name} must be a table of texts")
        return value


@dataclass(frozen=True, slots=True)
class Instance(Kind):
    """For Python alone."""

    word = "object"
    of: type

    def read(self, name: str, value: Any) -> Any:
        if not isinstance(value, self.of):
            raise ConfigurationError(f"{name}={shown(value)} must be a {self.of.__name__}")
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    name: str
    """Its keyword, and its key in a file."""
    field: str
    """Where it is kept: the same, for a duration perhaps with `_s` behind it."""
    kind: Kind
    default: Any
    help: str
    takers: Takers
    has_variable: bool
    key: str
    """Under which the server keeps it, if it is of the policy."""
    is_rare: bool
    """Whether the server has it only where it was set once: the others pay nothing for it."""

    @property
    def flag(self) -> str:
        """Its option of a command."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def variable(self) -> str | None:
        return f"SEQUENCER_{self.name.upper()}" if self.has_variable else None

    @property
    def default_text(self) -> str:
        """In help and reference; "" for none."""
        if self.default is None or self.default is False:
            return ""
        if isinstance(self.default, tuple):
            return ",".join(self.default)
        return brief(self.default) if isinstance(self.kind, Seconds) else str(self.default)

    def read(self, value: Any) -> Any:
        """What is kept of a value. Raises ConfigurationError."""
        return value if value is self.default else self.kind.read(self.name, value)


def option(
    kind: Kind,
    default: DefaultT,
    help: str,
    takers: Takers = (),
    *,
    has_variable: bool = False,
    key: str = "",
    is_rare: bool = False,
) -> DefaultT:
    """Declare an option, as the default of a dataclass's field."""
    more = {"kind": kind, "help": help, "takers": takers, "has_variable": has_variable, "key": key, "is_rare": is_rare}
    return field(default=default, metadata={"option": more})


@cache
def declared(*kinds: type) -> Mapping[str, Option]:
    """Name -> each option that these dataclasses declare."""
    found = [
        Option(name=one.name.removesuffix("_s"), field=one.name, default=one.default, **one.metadata["option"])
        for kind in kinds
        for one in fields(kind)
        if "option" in one.metadata
    ]
    return {one.name: one for one in found}


def read_options(made: object) -> None:
    """In `__post_init__`: check each declared option, and keep what was read. Raises ConfigurationError."""
    for one in declared(type(made)).values():  # type: ignore[arg-type]  # a class is hashable
        object.__setattr__(made, one.field, one.read(getattr(made, one.field)))


def fields_of(kind: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the given options that this dataclass declares, by its fields."""
    return {one.field: given[name] for name, one in declared(kind).items() if name in given}


def taken_by(taker: Taker, *kinds: type) -> Mapping[str, Option]:
    """Name -> each option that this command or file takes."""
    return {name: one for name, one in declared(*kinds).items() if taker in one.takers}


def check_known(what: str, given: Mapping[str, Any], known: Mapping[str, Option]) -> None:
    """Raises ConfigurationError for a name that is not an option of it."""
    for name in given:
        if name not in known:
            raise ConfigurationError(f"{what} has no option {shown(name)}; {nearest(name, known)}")


def read_table(table: Mapping[str, Any], known: Mapping[str, Option], beside: Collection[str] = ()) -> dict[str, Any]:
    """The options in a table of a file, but for the keys `beside` them. Raises ConfigurationError."""
    found = {name: value for name, value in table.items() if name not in beside}
    for name in found:
        if name not in known:
            raise ConfigurationError(f"there is no {name!r}; {nearest(name, [*known, *beside])}")
    return {name: known[name].kind.read(name, value) for name, value in found.items()}


def shows(settings: Any, *kinds: type) -> Callable[[FunctionT], FunctionT]:
    """Make the signature of a function with `**options` show each of them with its default, as `help()` prints it. Of a
    policy it is None: what the queue has. `settings`: the TypedDict of their types.
    """

    def show(function: FunctionT) -> FunctionT:
        plain = inspect.signature(function)
        taken = [one for one in plain.parameters.values() if one.kind is not one.VAR_KEYWORD]
        hints = {name: getattr(hint, "__forward_arg__", hint) for name, hint in settings.__annotations__.items()}
        keyword = inspect.Parameter.KEYWORD_ONLY
        named = [
            inspect.Parameter(name, keyword, default=None if one.key else one.default, annotation=hints[name])
            for name, one in declared(*kinds).items()
        ]
        function.__signature__ = plain.replace(parameters=[*taken, *named])  # type: ignore[attr-defined]
        return function

    return show


def brief(seconds: float) -> str:
    """15s, 500ms, 1h."""
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= size and not seconds % size:
            return f"{seconds // size:.0f}{unit}"
    return f"{seconds * 1000:g}ms" if 0 < seconds < 1 else f"{seconds:g}s"
