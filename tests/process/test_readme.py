"""Every README: its blocks run as they stand there, top to bottom, in an empty directory; what it names exists.

A block of kind `text` holds lines that the block before it printed. The two set-up commands install the project from
the registries; the CI run (`.ci/run`) takes them from the README and runs them in a clean copy. Here it is checked that
it finds them.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from sequencer import EmbeddedServer
from sequencer.benchmarks.__main__ import app as benchmarks
from sequencer.cli.app import app as command_line
from tests.faults.__main__ import app as faults

ROOT = Path(__file__).parents[2]
FOUND = [path for path in ROOT.glob("**/README.md") if not re.search(r"/(\.|node_modules/|build/)", path.as_posix())]
READMES = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in sorted(FOUND)}
RUN_ELSEWHERE = {"cli/recipes/README.md"}
"""Its blocks are of systemd, Docker and Kubernetes: test_recipes.py."""

DRAWINGS = {"sequencer/README.md"}
"""A block of no kind is a drawing here."""

APART = "<!-- the blocks from here on run in a directory of their own -->"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
INDENTED = re.compile(r"^    (\S.*)$", re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")
SPAN = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"(?:[\w.*-]+/)*(?:[\w*-]+\.(?:py|lua|json|md|toml)|[\w.-]+/)")

importlib.import_module("sequencer.cli.main")  # it registers the commands


def parts(name: str) -> list[list[tuple[str, str]]]:
    """Kind and text of each block, for each part that begins in an empty directory."""
    return [BLOCK.findall(part) for part in READMES[name].split(APART)]


def prose(name: str) -> str:
    """The text without its blocks."""
    return BLOCK.sub("", READMES[name])


def timeless(line: str) -> str:
    """A line without times, rates, process ids and the server's address, and with one space where a table has several."""
    line = re.sub(r"\b(rediss?|unix)://[^\s;]+", "...", line)
    line = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d([,.]\d+)?|(?<=sequencer\[)\d+|\b\d{10}\.\d+", "...", line)
    line = re.sub(r"\d+(\.\d+)? (m?s|min|h)\b", "... s", line)
    return " ".join(re.sub(r"\d+(?=/s\b)", "...", line).split())


def unsaid(text: str, said: str) -> list[str]:
    """The lines of a text that were not said, but for times and spaces."""
    lines = {timeless(line) for line in said.splitlines()}
    return [line for line in text.splitlines() if timeless(line) not in lines]


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty directory with an embedded server of its own to come."""
    directory = Path(tempfile.mkdtemp(prefix="sqr-"))
    yield directory
    EmbeddedServer(directory / "home").stop()
    shutil.rmtree(directory)


RUN_HERE = [
    (name, number)
    for name in READMES
    if name not in RUN_ELSEWHERE
    for number, part in enumerate(parts(name))
    if any(kind for kind, _ in part)
]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("name", "part"), RUN_HERE)
def test_every_block_runs(name: str, part: int, place: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SEQUENCER_")}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    environment["SEQUENCER_HOME"] = str(place / "home")
    said = ""
    for kind, text in parts(name)[part]:
        if not kind and name in DRAWINGS:
            continue
        assert kind in ("python", "console", "text"), f"a block of kind {kind!r} is not run by any test"
        if kind == "text":
            assert not unsaid(text, said), f"not said by the block before it\n{said}"
            continue
        if kind == "python" and (file := re.match(r"# (\w+\.py)\n", text)):
            (place / file[1]).write_text(text)
            words = [sys.executable, "-c", f"import {file[1].removesuffix('.py')}"]
        elif kind == "python":
            words = [sys.executable, "-W", "error", "-c", text]
        else:
            commands = [line.removeprefix("$ ") for line in text.splitlines()]
            assert all(line.startswith("$ ") for line in text.splitlines()), text
            words = ["bash", "-euo", "pipefail", "-c", "\n".join(commands)]
        done = subprocess.run(
            words, cwd=place, env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
        said = done.stdout + done.stderr
        assert "Traceback" not in done.stderr or "group parked" in done.stderr or "dead letter" in done.stderr


def test_a_block_that_shows_what_was_not_said_is_noticed() -> None:
    said = (
        "2026-11-23 14:14:51,203 WARNING sequencer[7] handled 5 in 0.66 s (17/s)\ne1   1795453158.643635  976 ms  5  "
    )
    same = "2027-01-01 00:00:00,001 WARNING sequencer[81] handled 5 in 1.5 s (2/s)\ne1 1795459999.1 1.2 s 5"
    assert not unsaid(same, said)
    assert unsaid("e1  1795453158.643635  976 ms  6", said)


def test_every_readme_is_found_and_most_of_them_run() -> None:
    assert {
        "README.md",
        "benchmarks/README.md",
        "cli/README.md",
        "sequencer/README.md",
        "tests/faults/README.md",
    } <= set(READMES)
    assert {"README.md", "cli/README.md", "sequencer/testing/README.md"} <= {name for name, _ in RUN_HERE}


def test_the_commands_outside_blocks_are_run_elsewhere() -> None:
    """By the CI run: the two set-up commands, and the proofs. By test_benchmark_peers.py: the benchmark."""
    found = {name: lines for name in READMES if (lines := INDENTED.findall(prose(name)))}
    assert {name: len(lines) for name, lines in found.items()} == {
        "README.md": 2,
        "benchmarks/README.md": 1,
        "tests/faults/README.md": 1,
    }
    for word in ("demo", "pytest"):
        printed = subprocess.run(
            [sys.executable, str(ROOT / ".ci" / "readme_command.py"), word], capture_output=True, text=True, check=True
        )
        assert printed.stdout.strip() in found["README.md"]
    assert found["benchmarks/README.md"] == ["python -m sequencer.benchmarks peers"]
    ci_run = (ROOT / ".ci" / "run").read_text()
    assert "readme_command.py demo" in ci_run
    assert "readme_command.py pytest" in ci_run
    assert found["tests/faults/README.md"] == ["python -m tests.faults ci"]
    assert "python -m tests.faults ci" in ci_run


def test_the_first_readme_is_short() -> None:
    assert len(READMES["README.md"].encode()) <= 14 * 1024
    assert len(READMES["README.md"].splitlines()) <= 250


def anchors(text: str) -> set[str]:
    """As hosts make them of headings."""
    titles = re.findall(r"^#+ (.*)$", BLOCK.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("name", READMES)
def test_every_link_leads_somewhere(name: str) -> None:
    broken = []
    for link in LINK.findall(prose(name)):
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, anchor = link.partition("#")
        target = ((ROOT / name).parent / path).resolve() if path else ROOT / name
        if not target.exists() or (anchor and anchor not in anchors(target.read_text(encoding="utf-8"))):
            broken.append(link)
    assert not broken


def commands_of(app: typer.Typer) -> dict[str, set[str]]:
    """Each command's name, and the names of those below it."""
    commands = getattr(typer.main.get_command(app), "commands", {})
    return {name: set(getattr(command, "commands", ())) for name, command in commands.items()}


def unknown_commands(text: str) -> list[str]:
    """Commands of ours that a text names and that do not exist. A word in capitals stands for any."""
    known = commands_of(command_line)
    below = {"sequencer.benchmarks": commands_of(benchmarks), "tests.faults": commands_of(faults)}
    consoles = [line for kind, block in BLOCK.findall(text) if kind == "console" for line in block.splitlines()]
    spans = SPAN.findall(BLOCK.sub("", text)) + INDENTED.findall(BLOCK.sub("", text)) + consoles
    unknown = []
    for span in spans:
        for module, name in re.findall(r"python -m ([\w.]+)(?: ([a-z]\w+))?", span):
            if importlib.util.find_spec(module) is None or (module in below and name and name not in below[module]):
                unknown.append(f"python -m {module} {name}".rstrip())
        said = re.search(r"(?:^|[|/ ])sequencer(?: --[\w-]+ \w+)*((?: [a-z]+)+)", span)
        words = said[1].split() if said else []
        if words and (words[0] not in known or (known[words[0]] and words[1:] and words[1] not in known[words[0]])):
            unknown.append(f"sequencer {' '.join(words)}")
    return unknown


@pytest.mark.parametrize("name", READMES)
def test_every_command_exists(name: str) -> None:
    assert not unknown_commands(READMES[name])


def test_a_command_that_does_not_exist_is_noticed() -> None:
    text = (
        "`sequencer push jobs`, `sequencer dead bury`, `python -m sequencer.benchmark`, `python -m tests.faults fire`"
    )
    assert len(unknown_commands(text)) == 4
    assert not unknown_commands("`sequencer --log-format json consume`, `sequencer dead list`, `sequencer COMMAND`")


def test_every_file_that_the_plan_of_the_rooms_names_exists() -> None:
    """Relative to sequencer/, or to the whole."""
    places = {path for span in SPAN.findall(prose("sequencer/README.md")) for path in PATH.findall(span)}
    assert len(places) > 20
    rooms = ROOT / "sequencer"
    assert not [path for path in sorted(places) if not any([*rooms.glob(path), *ROOT.glob(path)])]


def test_the_drawing_of_the_rooms_is_the_contract_of_imports() -> None:
    """Row by row; the rooms of a drawn row stand in its first 32 columns."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    (rows,) = [contract["layers"] for contract in contracts if contract["type"] == "layers"]
    agreed = [{name.strip().removeprefix("sequencer.") for name in row.split("|")} for row in rows]
    (drawing,) = [text for kind, text in parts("sequencer/README.md")[0] if not kind]
    words = [{*line[:32].split()} for line in drawing.splitlines()]
    drawn = [
        [word for word in row if word.strip("./").removesuffix(".py") in set[str]().union(*agreed)] for row in words
    ]
    assert [{word.strip("./").removesuffix(".py") for word in row} for row in drawn if row] == agreed
    assert not [word for row in drawn for word in row if not (ROOT / "sequencer" / word).exists()]
