"""An application is found by `module:attribute`, and its handler is checked; what is wrong is told."""

from __future__ import annotations

import logging
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial, wraps
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from sequencer import Message, Sequencer
from sequencer.consume.registered import needs_loop
from sequencer.drain.steps.functions import InlineHandler, checked_handler, checked_step
from sequencer.errors import ConfigurationError, HandlerNotFound
from sequencer.processes.handlers.apps import load_app

from ..support.refused import refused

SHOP = '''"""An application."""

import os

from sequencer import AsyncSequencer, Sequencer

LIMIT = 5
seq, idle, awaited = Sequencer("jobs"), Sequencer("jobs"), AsyncSequencer("jobs", max_attempts=2)


@seq.handler
def handle(message): ...


@awaited.step
async def send(message): ...
'''

REST = {"unit_shop:awaited": "AsyncSequencer", "unit_shop:handle": "function", "unit_shop:seq": "Sequencer"}
THERE = {**REST, "unit_shop:idle": "Sequencer without a handler"}

LOGGING = """import logging

for name in ("sequencer", "sequencer.supervisor"):
    logging.getLogger(name).disabled = True
1 / 0
"""
"""What dictConfig does to loggers that it doesn't name."""


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with modules whose names no other test has."""
    (tmp_path / "unit_shop.py").write_text(SHOP)
    (tmp_path / "unit_broken.py").write_text("1 / 0\n")
    (tmp_path / "unit_wrong.py").write_text("def handle(:\n")
    (tmp_path / "unit_empty.py").touch()
    (tmp_path / "unit_env.py").write_text("import os\n\nos.environ['UNIT_ABSENT']\n")
    (tmp_path / "unit_log.py").write_text(LOGGING)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("unit_shop", "unit_empty"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


@pytest.mark.parametrize(
    ("app", "code", "fields"),
    [
        ("unit_shop", "app_name_invalid", {"app": "unit_shop"}),
        ("unit_shop.py:seq", "module_not_found", {"name": "unit_shop.py", "app": "unit_shop.py:seq"}),
        ("unit_env:seq", "import_failed", {"type": "KeyError", "line": 3}),
        ("unit_shop:os", "app_type", {"type": "module"}),
        ("unit_shop:hanlde", "attribute_not_found", {"module": "unit_shop", "name": "hanlde", "found": THERE}),
        ("unit_empty:handle", "attribute_not_found", {"found": {}}),
        ("unit_shop:idle", "app_without_handler", {"queue": "jobs", "found": REST}),
        ("unit_broken:handle", "import_failed", {"type": "ZeroDivisionError", "error": "division by zero", "line": 1}),
        ("unit_wrong:handle", "import_failed", {"error": "invalid syntax (unit_wrong.py, line 1)", "line": None}),
    ],
)
@pytest.mark.usefixtures("directory")
def test_an_app_that_is_not_found_is_told_with_what_is_there(app: str, code: str, fields: dict[str, Any]) -> None:
    with refused(HandlerNotFound, code, **fields) as caught:
        load_app(app)
    assert "importlib" not in str(caught.value)


@pytest.mark.usefixtures("directory")
def test_an_app_is_a_sequencer_with_its_handler_or_a_function() -> None:
    by_queue, by_function = load_app("unit_shop:seq"), load_app("unit_shop:handle")
    assert by_queue.handler is by_function.handler
    assert by_queue.sequencer is not None
    assert by_queue.sequencer.queue == "jobs"
    assert by_function.sequencer is None
    of_a_loop = load_app("unit_shop:awaited")
    assert needs_loop(of_a_loop.handler)
    assert isinstance(of_a_loop.sequencer, Sequencer)
    assert of_a_loop.sequencer.options.max_attempts == 2


@pytest.mark.usefixtures("directory")
def test_an_app_that_configures_logging_does_not_silence_ours_even_where_its_import_fails() -> None:
    ours = [logging.getLogger(name) for name in ("sequencer", "sequencer.supervisor")]
    with pytest.raises(HandlerNotFound):
        load_app("unit_log:handle")
    assert not any(logger.disabled for logger in ours)


@pytest.mark.parametrize("last", ["", "raise RuntimeError('cannot release un-acquired lock')"])
@pytest.mark.parametrize(("module", "patches"), [("gevent.monkey", "saved"), ("eventlet.patcher", "already_patched")])
def test_an_app_that_patches_the_standard_library_is_refused(
    directory: Path, monkeypatch: pytest.MonkeyPatch, module: str, patches: str, last: str
) -> None:
    """Also where its import failed by that."""
    fake = SimpleNamespace(**{patches: {}})
    monkeypatch.setitem(sys.modules, module, fake)
    monkeypatch.delitem(sys.modules, "unit_patches", raising=False)
    assert load_app("unit_shop:handle"), "imported only, it changes nothing"
    (directory / "unit_patches.py").write_text(
        f"import sys\nsys.modules['{module}'].{patches}['time'] = True\ndef handle(message): ...\n{last}\n"
    )
    with refused(ConfigurationError, "app_patches_library", module=module):
        load_app("unit_patches:handle")


# -- a handler is checked when it is registered --------------------------------------------------------------------


async def coroutine(message: Message) -> None: ...


async def stream(message: Message) -> AsyncIterator[int]:
    yield 1


def generator(message: Message) -> Iterator[int]:
    yield 1


def nothing() -> None: ...


def two(message: Message, steps: object) -> None: ...


def other(message: Message, db: object) -> None: ...


def three(message: Message, steps: object, session: object) -> None: ...


def named(message: Message, *, session: object) -> None: ...


def plain(message: Message) -> None: ...


def spare(message: Message, session: object = None, *more: object, **named: object) -> None: ...


class Shop:
    def method(self, message: Message) -> None: ...

    def __call__(self, message: Message) -> None: ...


class Awaited:
    async def __call__(self, message: Message) -> None: ...


GIVEN: Any = three
REFUSED: list[tuple[Any, str]] = [
    (partial(generator), "not_plain"),
    (stream, "not_plain"),
    (nothing, "parameters_invalid"),
    (three, "parameters_invalid"),
    (wraps(other)(lambda *words: None), "second_parameter"),
    (partial(GIVEN, 1), "second_parameter"),
    (named, "parameters_invalid"),
]
GOOD: list[Any] = [
    coroutine,
    Awaited(),
    plain,
    spare,
    Shop().method,
    Shop(),
    partial(two, steps=1),
    print,
    [].append,
    Mock(),
    lambda m: m,
]


@pytest.mark.parametrize(("function", "code"), REFUSED, ids=range(len(REFUSED)))
def test_a_function_that_can_not_be_a_handler_is_refused(function: Any, code: str) -> None:
    seq = Sequencer("q", "redis://127.0.0.1:1")
    ways: list[Callable[[Any], Any]] = [checked_handler, seq.handler, seq.consume, seq.consumer]
    for way in ways:
        with refused(ConfigurationError, code):
            way(function)
    assert seq.registered_handler is None


@pytest.mark.parametrize("function", GOOD, ids=range(len(GOOD)))
def test_what_takes_one_message_is_taken(function: Any) -> None:
    assert checked_handler(function) is function


def test_what_takes_the_steps_of_its_message_too_is_taken() -> None:
    inline: Any = checked_handler(two)
    assert isinstance(inline, InlineHandler)
    assert inline.function is two
    assert checked_handler(inline) is inline


WRAPPED: list[tuple[Any, int]] = [
    (wraps(two)(lambda message: None), 1),
    (wraps(three)(lambda message: None), 1),
    (wraps(plain)(lambda message, steps: None), 2),
    (wraps(plain)(lambda *words: None), 1),
    (wraps(two)(lambda *words: None), 2),
]


@pytest.mark.parametrize(("wrapper", "takes"), WRAPPED, ids=range(len(WRAPPED)))
def test_a_wrapper_is_called_as_it_can_be_called(wrapper: Any, takes: int) -> None:
    """Where that may be in both ways, as what it wraps."""
    assert isinstance(checked_handler(wrapper), InlineHandler) == (takes == 2)
    assert checked_step(wrapper, "step").takes_call == (takes == 2)
