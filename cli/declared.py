"""The options of `settings/options.py` as options of commands."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..settings.option import FLAG, Option, Taker, taken_by
from .app import DURATION, FunctionT, dressed

if TYPE_CHECKING:
    from ..processes.supervisor import Supervisor


def takes(command: Taker, *kinds: type) -> Callable[[FunctionT], FunctionT]:
    """Give a command the options that it takes of these dataclasses."""
    return takes_options(taken_by(command, *kinds), is_set=command == "configure")


def takes_options(known: Mapping[str, Option], *, is_set: bool = False) -> Callable[[FunctionT], FunctionT]:
    """Give a command these options, before its `--redis`: what a call or a variable names comes by `**given`, as a
    keyword argument would.
    """

    def take(function: FunctionT) -> FunctionT:
        own = [one for one in inspect.signature(function, eval_str=True).parameters.values() if one.name != "given"]
        at = next((index for index, one in enumerate(own) if one.name == "redis"), len(own))

        def called(**values: Any) -> Any:
            named = {name: values.pop(name) for name in known}
            given = {name: known[name].kind.split(value) for name, value in named.items() if value is not None}
            return function(**values, **given)

        made = [_parameter(one, known, is_set=is_set) for one in known.values()]
        return dressed(called, function, [*own[:at], *made, *own[at:]])  # type: ignore[no-any-return]

    return take


def _parameter(option: Option, known: Mapping[str, Option], *, is_set: bool) -> inspect.Parameter:
    """`is_set`: where it stays as it is unless it is named, so that there is no default to show."""
    kind, more = option.kind, {"metavar": "NAMES"} if option.kind.is_list else dict[str, Any]()
    more |= DURATION if kind.type is float else {}
    flag = f"{option.flag}/--no-{option.flag[2:]}" if kind is FLAG and is_set else option.flag
    help = re.sub("`([a-z_]+)`", lambda name: known[name[1]].flag if name[1] in known else name[1], option.help)
    help += f" [default: {option.default_text}]" if option.default_text and not is_set else ""
    shown = typer.Option(flag, help=help, envvar=option.variable, show_default=False, **more)
    plain: Any = kind.type
    hint = Annotated[plain | None, shown]
    return inspect.Parameter(option.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=hint)


def served(http: str | None, supervisor: Supervisor[Any]) -> AbstractContextManager[object]:
    """Within, what `--http` asks for is served; nothing is imported for it unless it is given."""
    if http is None:
        return nullcontext()
    from ..processes.http import serving

    return serving(http, supervisor)
