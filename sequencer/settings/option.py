"""What an option is: one field of a dataclass, declared with its kind, default and help.

Its keyword argument, its option of a command, its key in a file, its variable, its check and its row in the reference
come from that field. For static typing alone the keyword has one line more, in a TypedDict beside the dataclass.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields
from functools import cache, partial
from typing import Any, Literal, TypeVar, get_args

from ..errors import ConfigurationError
from ..values.checks import check_choice, check_integer, check_name, check_names, nearest, seconds_of
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

    word: str  # what a value is, in the reference
    read: Callable[[str, Any], Any]
    """What is kept of an option's value, which is read as the same. Raises ConfigurationError."""
    type: Any = str  # on a command line: text that names a list has commas in it
    bounds: str = ""
    is_list: bool = False

    def split(self, given: Any) -> Any:
        """A value from a command line."""
        return [one.strip() for one in given.split(",") if given.strip()] if self.is_list else given


def _must(is_right: Callable[[Any], bool], what: str, *, is_secret: bool = False) -> Callable[[str, Any], Any]:

    def read(name: str, value: Any) -> Any:
        if not is_right(value):
            shown = None if is_secret else value
            raise ConfigurationError("value_invalid", name=name, value=shown, is_secret=is_secret, wanted=what)
        return value

    return read


def whole(low: int, high: int) -> Kind:
    return Kind("whole number", partial(check_integer, low=low, high=high), int, f"{low:,} to {high:,}")


def seconds(low: float = 0.0, high: float = LONGEST_S) -> Kind:
    bounds = f"from {brief(low)}" + (f" to {brief(high)}" if high < LONGEST_S else "")
    return Kind("duration", partial(seconds_of, low=low, high=high), float, bounds)


def choice(literal: Any) -> Kind:
    choices = get_args(literal)
    return Kind("one of", partial(check_choice, choices=choices), literal, ", ".join(choices))


def text(what: str = "text", *, is_secret: bool = False) -> Kind:
    def is_right(value: Any) -> bool:
        return isinstance(value, str) and bool(value.strip()) and "\0" not in value

    return Kind("text", _must(is_right, what, is_secret=is_secret))


def names(what: str, *, may_be_one: bool = False) -> Kind:
    """`may_be_one`: one name may stand for a list of it, which then may not be empty."""
    return Kind("names", partial(check_names, what=what, may_be_one=may_be_one), is_list=True)


def instance(of: type) -> Kind:
    """For Python alone."""
    return Kind(of.__name__, _must(lambda value: isinstance(value, of), f"a {of.__name__}"))


def _is_share(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def _is_table(value: Any) -> bool:
    """Names and texts; None leaves out what is there by that name."""
    return isinstance(value, Mapping) and all(isinstance(one, str | None) for one in value.values())


def _is_address(value: Any) -> bool:
    host, _, port = value.rpartition(":") if isinstance(value, str) else ("", "", "")
    return bool(host) and port.isdecimal() and port.isascii() and int(port) < 65536


ADDRESS = Kind("address", _must(_is_address, "an address, as 127.0.0.1:9464"))
FLAG = Kind("true or false", _must(lambda value: isinstance(value, bool), "true or false"), bool)
SHARE = Kind("number", _must(_is_share, "a number from 0 to 1"), float, "0 to 1")
NAME = Kind("name", check_name)
ERRORS = Kind("names of exceptions", error_names, is_list=True)
KEEP = Kind("duration", lambda name, value: value if value == "until_done" else seconds_of(name, value), str)
TEXTS = Kind("table of texts", _must(_is_table, "a table of texts", is_secret=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    name: str  # its keyword, and its key in a file
    field: str  # where it is kept: the same, for a duration perhaps with `_s` behind it
    kind: Kind
    default: Any
    help: str
    takers: Takers
    has_variable: bool
    key: str  # under which the server keeps it, if it is of the policy

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
        return brief(self.default) if self.kind.word == "duration" else str(self.default).replace("True", "true")

    def read(self, value: Any) -> Any:
        """What is kept of a value. Raises ConfigurationError."""
        return value if value is self.default else self.kind.read(self.name, value)


def option(
    kind: Kind, default: DefaultT, help: str, takers: Takers = (), *, has_variable: bool = False, key: str = ""
) -> DefaultT:
    """Declare an option, as the default of a dataclass's field."""
    made = partial(Option, kind=kind, default=default, help=help, takers=takers, has_variable=has_variable, key=key)
    return field(default=default, metadata={"option": made})


@cache
def declared(*kinds: type) -> Mapping[str, Option]:
    """Name -> each option that these dataclasses declare."""
    found = [
        one.metadata["option"](name=one.name.removesuffix("_s"), field=one.name)
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
            raise ConfigurationError("name_unknown", kind="option", name=name, owner=what, **nearest(name, known))


def read_table(table: Mapping[str, Any], known: Mapping[str, Option], beside: Collection[str] = ()) -> dict[str, Any]:
    """The options in a table of a file, but for the keys `beside` them. Raises ConfigurationError."""
    found = {name: value for name, value in table.items() if name not in beside}
    for name in found:
        if name not in known:
            raise ConfigurationError("name_unknown", kind="key", name=name, **nearest(name, [*known, *beside]))
    return {name: known[name].kind.read(name, value) for name, value in found.items()}


def shows(settings: Any, *kinds: type) -> Callable[[FunctionT], FunctionT]:
    """Make a signature with `**options` show each with its default, for `help()`. `settings`: their TypedDict."""

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
