"""Operations import nothing that waits, and await their net, their session and other operations, and nothing else."""

from __future__ import annotations

import ast
import asyncio
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

import sequencer.queue
from sequencer.errors import ConfigurationError
from sequencer.net.blocking import finish
from sequencer.queue.operate import pause, unpause

from ..support.listed_net import ListedNet, ListedSession, run
from ..support.refused import refused

MODULES = sorted(
    one.name for one in pkgutil.walk_packages(sequencer.queue.__path__, "sequencer.queue.") if not one.ispkg
)
WAITS = {"redis", "asyncio", "threading", "time", "socket", "subprocess", "concurrent", "select"}
AWAITED = ("session", "_session", "net", "alone", "search", "chunks")
"""Parameters of operations whose methods may be awaited."""
SOURCES = {
    "sequencer.queue.append_many": ["anext(self._values, None)", "items"],
    "sequencer.queue.places": ["read_page(limit=min(MAX_PAGE, limit), after=after)"],
}
"""An async iterable of the caller's; an operation that is passed to another."""


def imported(source: str) -> set[str]:
    """What is imported, by the first part of its name; of this package "net" for the room that talks to servers."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {name.name.partition(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
    return found


def awaited(source: str) -> Iterator[ast.expr]:
    """What is awaited, looped over or entered with `async`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Await):
            yield node.value
        elif isinstance(node, ast.AsyncFor) or (isinstance(node, ast.comprehension) and node.is_async):
            yield node.iter
        elif isinstance(node, ast.AsyncWith):
            yield from (item.context_expr for item in node.items)


def foreign(source: str, operations: set[str]) -> list[str]:
    """What is awaited and is neither an operation nor a method of session or net."""
    return [
        ast.unparse(one)
        for one in awaited(source)
        if not (isinstance(one, ast.Call) and (ast.unparse(one.func) in operations or _is_net(one.func)))
    ]


def _is_net(function: ast.expr) -> bool:
    words = ast.unparse(function).removeprefix("self.").split(".")
    return len(words) > 1 and words[0] in AWAITED


def operations_of(module: ModuleType) -> set[str]:
    """Coroutine functions known in a module, be they its own or imported, and methods of its own classes."""
    asked = (inspect.iscoroutinefunction, inspect.isasyncgenfunction)
    known = {name: value for name, value in vars(module).items() if not isinstance(value, type)}
    for name, one in vars(module).items():
        if isinstance(one, ModuleType):
            known |= {f"{name}.{inner}": value for inner, value in vars(one).items()}
        if isinstance(one, type) and one.__module__ == module.__name__:
            known |= {f"self.{inner}": value for inner, value in vars(one).items()}
    return {name for name, value in known.items() if any(one(value) for one in asked)}


@pytest.mark.parametrize("name", MODULES)
def test_an_operation_waits_for_its_net_only(name: str) -> None:
    module = importlib.import_module(name)
    source = inspect.getsource(module)
    assert not imported(source) & (WAITS | {"net"})
    assert foreign(source, operations_of(module)) == SOURCES.get(name, [])


def test_what_waits_for_something_else_is_found() -> None:
    source = """
import time
from ..net.link import Link
async def wrong(session, net, other):
    await asyncio.sleep(1)
    await other.ask()
    await helper(net)
    await session.net.ask()
    async with net.alone(): pass
    async for one in elsewhere(): pass
    return [one async for one in helper(net)]
"""
    assert imported(source) == {"time", "net"}
    assert sorted(foreign(source, {"helper"})) == ["asyncio.sleep(1)", "elsewhere()", "other.ask()"]


# -- over a net that answers from a list ---------------------------------------------------------------------------


def test_a_pause_of_all_shards_is_one_round_trip_and_says_whether_anything_changed() -> None:
    net = ListedNet([0, 1], [0, 0])
    session: Any = ListedSession(net, shards=2)
    assert run(pause(session)) is True
    assert run(unpause(session)) is False
    assert [(script, words[:2]) for script, *words in net.asked] == [("pause", ["", "1"])] * 2 + [
        ("pause", ["", "0"])
    ] * 2
    assert session.allowed == ["operate", "operate"]


def test_an_operation_that_waits_for_anything_but_its_net_is_found() -> None:
    async def wrong(_session: Any) -> None:
        await asyncio.sleep(0)

    with refused(ConfigurationError, "awaits_other"):
        finish(wrong(None))
