"""What doctor says of steps that run once on a server that may lose their starts, and of a history with holes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sequencer import Finding, Sequencer

from .conftest import command


def of_once(seq: Sequencer) -> Iterator[Finding]:
    return (one for one in seq.doctor() if one.code.startswith("once "))


@pytest.mark.parametrize("is_dead", [False, True])
def test_it_knows_of_steps_that_run_once_by_what_waits(start_server: Callable[..., str], is_dead: bool) -> None:
    path = start_server()
    with Sequencer("gifts", f"unix://{path}", on_unresolved="dead_letter" if is_dead else "park") as seq:
        seq.append(1, group="g", id="a")
        assert list(of_once(seq)) == [], "none has begun"

        @seq.step(once=True)
        def charge(message: Any) -> None:
            raise ValueError("declined")

        seq.consume(until_empty=True)
        (found,) = of_once(seq)
        assert (found.code, found.fields["queue"]) == ("once without append-only file", "gifts")
        assert found.commands["fix"].endswith(" CONFIG SET appendonly yes")
        command(path, "CONFIG", "SET", "appendonly", "yes")
        (found,) = of_once(seq)
        assert found.code == "once with fsync each second"
        command(path, "CONFIG", "SET", "appendfsync", "always")
        assert list(of_once(seq)) == []
