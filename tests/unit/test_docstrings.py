"""What docstrings of public things name, a reader can import: classes and constants of ours are exported."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import sequencer
import sequencer.errors
import sequencer.testing
import sequencer.values

PUBLIC: tuple[ModuleType, ...] = (sequencer, sequencer.errors, sequencer.values, sequencer.testing)
EXPORTED = {name for module in PUBLIC for name in module.__all__}
NAME = re.compile(r"(?<![\w.`/])(?:[A-Z][a-z]+(?:[A-Z][a-z]+)*|[A-Z]+(?:_[A-Z]+)+)(?!\w)")
"""A class, or a constant of at least two words."""


def ours() -> set[str]:
    """Every class and constant of the package."""
    found: set[str] = set()
    for one in pkgutil.walk_packages(sequencer.__path__, "sequencer."):
        if not one.name.startswith(("sequencer.cli", "sequencer.testing.kill")):
            found |= {name for name in vars(importlib.import_module(one.name)) if NAME.fullmatch(name)}
    return found


def docstrings() -> Iterator[tuple[str, str]]:
    """Each public thing, and each public member of a public class, with its docstring."""
    for module in PUBLIC:
        for name in module.__all__:
            value: Any = getattr(module, name)
            yield name, inspect.getdoc(value) or ""
            if isinstance(value, type):
                for member, held in vars(value).items():
                    if not member.startswith("_"):
                        yield f"{name}.{member}", inspect.getdoc(held) or ""


def unknown(text: str, names: set[str]) -> set[str]:
    """What a text names of ours and nobody can import. A word at the beginning of a sentence may be plain English."""
    named = set(NAME.findall(text)) & names - EXPORTED
    plain = {
        name
        for name in named
        if re.search(rf"(?:^|[.:]\s+|\n\n\s*){name}\b", text) and not re.search(r"[a-z][A-Z]|_", name)
    }
    return named - plain


NAMES = ours()


def test_what_a_docstring_names_is_exported() -> None:
    assert {what: found for what, text in docstrings() if (found := unknown(text, NAMES))} == {}


def test_a_name_that_is_not_exported_is_noticed() -> None:
    assert {"QueueOptions", "SIZE_BESIDE", "Session"} <= NAMES
    assert unknown("See Session, and SIZE_BESIDE.", NAMES) == {"Session", "SIZE_BESIDE"}
    assert unknown("See Policy, and ConfigurationError.", NAMES) == set()
