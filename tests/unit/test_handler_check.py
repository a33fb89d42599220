"""A handler is checked when it is registered, with one sentence that says what it lacks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial, wraps
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from sequencer import Message, Sequencer
from sequencer.consume.registered import checked_handler, checked_step
from sequencer.drain.steps.declared import InlineHandler
from sequencer.errors import ConfigurationError
from sequencer.processes.handlers.apps import load_app


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
    (coroutine, "is a coroutine function"),
    (Awaited(), "is a coroutine function"),
    (partial(generator), "is a generator function"),
    (stream, "is an asynchronous generator function"),
    (nothing, "can't be called with one argument"),
    (three, "nor with two, the message and its steps"),
    (wraps(other)(lambda *words: None), "has a second parameter 'db'"),
    (partial(GIVEN, 1), "has a second parameter 'session'"),
    (named, "can't be called with one argument"),
]
GOOD: list[Any] = [plain, spare, Shop().method, Shop(), partial(two, steps=1), print, [].append, Mock(), lambda m: m]


@pytest.mark.parametrize(("function", "said"), REFUSED, ids=range(len(REFUSED)))
def test_a_function_that_can_not_be_a_handler_is_refused(function: Any, said: str) -> None:
    seq = Sequencer("q", "redis://127.0.0.1:1")
    ways: list[Callable[[Any], Any]] = [checked_handler, seq.handler, seq.consume, seq.consumer]
    for way in ways:
        with pytest.raises(ConfigurationError) as caught:
            way(function)
        assert said in str(caught.value)
        assert "\n" not in str(caught.value)
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


def test_the_function_of_an_app_is_checked_before_consumers_start(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "checked_shop.py").write_text("def handle(message, steps, db): ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigurationError, match=r"handler checked_shop.handle\(message, steps, db\) can't be called"):
        load_app("checked_shop:handle")
