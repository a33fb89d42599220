"""The command: what was found decides the exit status, and nothing is left unsaid."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from . import __main__ as command
from .report import Result

pytestmark = pytest.mark.nightly


def made(**fields: Any) -> Result:
    return Result(**{"name": "chaos", "command": "python -m tests.faults chaos --seed 7", **fields})


def test_nothing_is_hidden() -> None:
    one = made(
        runs=2, seeds="7..8", messages=3000, duplicates=4, duplicates_allowed=9, recovery_s=(0.5, 1.5),
        faults={"reply lost": 12}, figures={"lost with no persistence": "17 of 3,000"}, problems=["ack:sent: lost m1"],
    )  # fmt: skip
    shown = "\n".join(command.lines(one))
    for words in ("2 runs, seeds 7..8", "1.00 / 1.50 s", "reply lost 12", "17 of 3,000", "--seed 7", "lost m1"):
        assert words in shown


@pytest.mark.parametrize(
    ("result", "status"),
    [
        (made(), command.FINE),
        (made(skipped="no server"), command.FINE),
        (made(problems=["lost"]), command.FOUND),
    ],
)
def test_what_was_found_is_the_exit_status(result: Result, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "import_module", lambda *_: SimpleNamespace(run=lambda scale: result))
    ended = CliRunner().invoke(command.app, ["chaos", "--json"])
    assert ended.exit_code == status, ended.output
    assert json.loads(ended.stdout.splitlines()[-1])["results"][0]["command"] == result.command


def test_one_that_breaks_down_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(_scale: str, *, seed: int) -> Result:
        raise RuntimeError("no more processes")

    monkeypatch.setattr(command, "import_module", lambda *_: SimpleNamespace(run=run))
    result = command.run_one("chaos", "ci", seed=3)
    assert result.problems == ["it broke down: RuntimeError: no more processes"]
    assert result.command == "python -m tests.faults chaos --scale ci --seed 3"


@pytest.mark.parametrize("words", ["chaos --only x", "crash --point x", "crash --scale x", "x", "server --point x"])
def test_wrong_use_is_said(words: str) -> None:
    ended = CliRunner().invoke(command.app, words.split())
    assert ended.exit_code == command.WRONG_USE, ended.output
    assert "Traceback" not in ended.output
