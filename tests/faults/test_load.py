"""The load of the server's fault_test: its processes end when asked to, and what they recorded is counted."""

from __future__ import annotations

import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from .server.load import Ending, Tally

pytestmark = pytest.mark.nightly


@pytest.mark.parametrize("is_early", [True, False])
def test_a_consumer_of_the_load_ends_also_when_it_is_asked_to_before_it_takes_signals(
    is_early: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    handlers: dict[int, Callable[[], object]] = {}
    monkeypatch.setattr(signal, "signal", lambda number, handler: handlers.update({number: handler}))
    ending, consumer = Ending(), SimpleNamespace(is_stopped=False)
    consumer.stop = lambda: setattr(consumer, "is_stopped", True)
    steps: list[Callable[[], object]] = [handlers[signal.SIGTERM], partial(ending.concerns, cast(Any, consumer))]
    for step in steps if is_early else reversed(steps):
        step()
    assert consumer.is_stopped


def test_a_file_that_grows_is_counted_line_by_line_and_each_line_once(tmp_path: Path) -> None:
    path = tmp_path / "events"
    path.write_bytes(b'{"what":"begun"}\n{"what":"ended"}\n{"what":"be')
    tally = Tally(path)
    assert tally.look() == {"begun": 1, "ended": 1}
    with path.open("ab") as file:
        file.write(b'gun"}\n{"what":"begun"}\n')
    assert tally.look() == {"begun": 3, "ended": 1}
    assert tally.look() == {"begun": 3, "ended": 1}
