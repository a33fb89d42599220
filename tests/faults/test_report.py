"""The command and its tables: what was found decides the exit status, and nothing is left unsaid."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from . import __main__ as command
from . import table
from .report import Result, bound


def made(**fields: Any) -> Result:
    return Result(**{"name": "chaos", "command": "python -m tests.faults chaos --seed 7", **fields})


def shown(*results: Result) -> str:
    console = Console(width=200, record=True, file=open("/dev/null", "w"), highlight=False)  # noqa: SIM115
    table.show(console, results, {"machine": {"problem": "no machine"}})
    console.file.close()
    return console.export_text()


def test_the_rule_of_three() -> None:
    assert bound(3000) == 0.001
    assert bound(0) == float("inf")


def test_nothing_is_hidden() -> None:
    text = shown(
        made(
            runs=2, seeds="7..8", messages=3000, losses=0, duplicates=4, duplicates_allowed=9, recovery_s=(0.5, 1.5),
            faults={"reply lost": 12}, figures={"lost with no persistence": "17 of 3,000"}, seconds=3.2,
        ),
        made(name="model", skipped="spin is missing; apt-get install spin"),
        made(name="crash", problems=["ack:sent: lost m1"], messages=5, losses=1),
    )  # fmt: skip
    for words in (
        "2 runs, seeds 7..8", "3,000", "1.00 / 1.50 s", "reply lost 12", "17 of 3,000", "3/N = 1.0e-03", "passed",
        "python -m tests.faults chaos --seed 7", "left out: spin is missing", "FAILED (1)",
        "PROBLEM: ack:sent: lost m1",
    ):  # fmt: skip
        assert words in text, words


ENDINGS = pytest.mark.parametrize(
    ("result", "status"),
    [
        (made(), command.FINE),
        (made(skipped="no spin"), command.FINE),
        (made(problems=["lost"]), command.FOUND),
    ],
)


@ENDINGS
def test_what_was_found_is_the_exit_status(
    result: Result, status: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    calls: list[tuple[str, str]] = []

    def fault_test(name: str, **_: Any) -> Any:
        def run(scale: str) -> Result:
            calls.append((name, scale))
            return result

        return SimpleNamespace(run=run)

    monkeypatch.setattr(command, "import_module", lambda name, _package: fault_test(name))
    ended = CliRunner().invoke(command.app, ["nightly", "--json", "--output", str(tmp_path / "a" / "r.json")])
    assert ended.exit_code == status, ended.output
    kept = json.loads((tmp_path / "a" / "r.json").read_text())
    assert kept == json.loads(ended.stdout.splitlines()[-1])
    assert [name for name, scale in calls if scale == "nightly"] == [f".{name}" for name in command.FAULT_TESTS]
    assert kept["machine"]["sequencer"]


@ENDINGS
def test_so_it_is_for_fault_tests_side_by_side(result: Result, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    class Shards(SimpleNamespace):
        def run(self, shards: list[list[str]]) -> list[Result]:
            assert self.scale == "ci"
            return [replace(made() if name != "chaos" else result, name=name) for names in shards for name in names]

    monkeypatch.setattr(command, "Shards", lambda scale: Shards(scale=scale))
    ended = CliRunner().invoke(command.app, ["ci", "--json"])
    assert ended.exit_code == status, ended.output
    found = json.loads(ended.stdout.splitlines()[-1])["results"]
    assert [one["name"] for one in found] == list(command.FAULT_TESTS)


@pytest.mark.parametrize("given", [{}, {"seed": 3}])
def test_a_fault_test_that_breaks_down_is_a_problem(monkeypatch: pytest.MonkeyPatch, given: dict[str, int]) -> None:
    def run(_scale: str, **_: Any) -> Result:
        raise RuntimeError("no more processes")

    monkeypatch.setattr(command, "import_module", lambda *_: SimpleNamespace(run=run))
    result = command.run_one("chaos", "ci", **given)
    assert result.problems == ["it broke down: RuntimeError: no more processes"]
    assert result.command == " ".join(["python -m tests.faults chaos --scale ci", *["--seed 3"] * bool(given)])


@pytest.mark.parametrize(
    "words",
    [
        ("chaos", "--only", "x"),
        ("server", "--only", "x"),
        ("shell", "--only", "x"),
        ("crash", "--point", "x"),
        ("model", "--scale", "x"),
    ],
)
def test_wrong_use_is_said(words: tuple[str, ...]) -> None:
    ended = CliRunner().invoke(command.app, list(words))
    assert ended.exit_code == command.WRONG_USE, ended.output
    assert "Traceback" not in ended.output
