"""The shape of the tree: few rooms, each with its rule; and the references in docs/ are what is declared."""

from __future__ import annotations

import ast
import re
import runpy
import subprocess
import tomllib
from pathlib import Path

import pytest

from sequencer.settings.option import declared
from sequencer.settings.options import QueueOptions

ROOT = Path(__file__).parents[2]
REFERENCE = runpy.run_path(str(ROOT / ".ci" / "reference.py"))
PRODUCT = ("sequencer", "cli")
MOST_ENTRIES = 22


def sources(*folders: str) -> list[str]:
    return sorted(path.relative_to(ROOT).as_posix() for name in folders for path in (ROOT / name).rglob("*.py"))


def packages(*folders: str) -> list[str]:
    return sorted({path.rpartition("/")[0] for path in sources(*folders)})


TOP = {"pyproject.toml", "sequencer", "cli", "benchmarks", "docs", "tests"}
TEXTS = {"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE"}


def strangers(paths: list[str]) -> set[str]:
    """What lies at the top and does not belong there; names that begin with a dot are tools' own."""
    names = {path.partition("/")[0] for path in paths}
    return {name for name in names if not name.startswith(".")} - TOP - TEXTS


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="this tree is no checkout")
def test_nothing_else_lies_at_the_top() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    paths = listed.stdout.splitlines()
    assert {path.partition("/")[0] for path in paths} >= TOP
    assert strangers(paths) == set()
    assert strangers([*paths, "--help/ack.lua"]) == {"--help"}


def test_the_package_has_few_rooms() -> None:
    apart = {"__init__.py", "py.typed", "README.md", "__pycache__"}
    entries = sorted(path.name for path in (ROOT / "sequencer").iterdir() if path.name not in apart)
    assert len(entries) <= MOST_ENTRIES, entries


@pytest.mark.parametrize("package", packages(*PRODUCT, "benchmarks"))
def test_each_room_says_what_is_not_in_it_and_its_rule(package: str) -> None:
    doc = ast.get_docstring(ast.parse((ROOT / package / "__init__.py").read_text())) or ""
    starts = [line.partition(":")[0].partition(" (")[0] for line in doc.splitlines()]
    assert {"Not here", "The rule"} <= set(starts) or package == "sequencer", doc


def test_each_folder_with_code_is_a_package() -> None:
    everything = packages(*PRODUCT, "benchmarks", "tests")
    assert [name for name in everything if not (ROOT / name / "__init__.py").is_file()] == []


def test_what_contributors_are_told_to_open_is_there() -> None:
    text = (ROOT / "sequencer" / "README.md").read_text()
    named = set(re.findall(r"`((?:sequencer|cli|tests|benchmarks|\.ci)/[\w./]*)`", text))
    assert len(named) > 20
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


def test_each_folder_of_the_package_is_in_the_wheel() -> None:
    packages_listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    folders = {
        path.parent.relative_to(ROOT).as_posix()
        for name in PRODUCT
        for path in (ROOT / name).rglob("*")
        if path.suffix in {".py", ".lua"}
    }
    dotted = {folder.replace("/", ".") for folder in folders}
    inside = {name if name.startswith("sequencer") else f"sequencer.{name}" for name in dotted}
    assert inside - {"sequencer.cli.start"} | {"sequencer_start"} == set(packages_listed)


def test_the_reference_has_every_option_as_it_is_declared() -> None:
    text = REFERENCE["reference"]()
    assert all(f"| `{name}` |" in text for name in ("max_attempts", "dedup_window", "handler_timeout", "n", "parked"))
    assert declared(QueueOptions)["on_failure"].help in text


@pytest.mark.parametrize("page", REFERENCE["PAGES"])
def test_a_page_has_what_is_declared(page: str) -> None:
    text = (ROOT / page).read_text()
    assert REFERENCE["written"](text, REFERENCE["PAGES"][page]()) == text, "run: python .ci/reference.py"
