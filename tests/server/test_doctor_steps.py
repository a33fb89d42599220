"""What doctor says of steps that run once on a server that may lose their starts, and of a history with holes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sequencer import Finding, Sequencer
from sequencer.doctor.server import once_findings

from .conftest import command


def of(check: str, found: list[Finding]) -> list[Finding]:
    return [one for one in found if one.check == check]


def of_once(seq: Sequencer) -> Iterator[Finding]:
    return (one for one in of("persistence", seq.doctor()) if "steps that run once" in one.text)


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
        assert found.level == "warning"
        assert "queue gifts has steps that run once, and a crash of the server may lose the start of one" in found.text
        assert found.text.endswith(" CONFIG SET appendonly yes")
        command(path, "CONFIG", "SET", "appendonly", "yes")
        (found,) = of_once(seq)
        assert (found.level, "its last second" in found.text) == ("ok", True)
        command(path, "CONFIG", "SET", "appendfsync", "always")
        assert list(of_once(seq)) == []


@pytest.mark.parametrize(
    ("aof", "fsync", "level"),
    [("0", "everysec", ["warning"]), ("1", "no", ["warning"]), ("1", None, ["ok"]), ("1", "always", [])],
)
def test_what_a_server_may_lose_of_a_start(aof: str, fsync: str | None, level: list[str]) -> None:
    found = once_findings("q", {"aof_enabled": aof}, {"appendfsync": fsync} if fsync else {})
    assert [one.level for one in found] == level
