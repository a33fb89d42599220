"""Runs the blocks of README.md and docs/ as they stand there, and compares what they print.

A block of kind `text` holds lines that the block before it printed, or, below the comment in WHOLE, all of them:
`python -m tests.support.doc_blocks` runs those pages and updates such blocks; with the names of pages it runs those and
shows what each block printed. `redis://localhost:6379/0` stands for the server of the test.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from sequencer import EmbeddedServer

ROOT = Path(__file__).parents[2]
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
}

APART = "<!-- new directory -->"
WHOLE = "<!-- all of its output; `python -m tests.support.doc_blocks` updates it -->"
NOT_RUN = "<!-- not run -->"
GENERATED = "<!-- written by .ci/reference.py -->"
STATUS = re.compile(r"<!-- exit status (\d+) -->")
"""In the line above a block whose last command ends so."""

USERS_SERVER = "redis://localhost:6379/0"
END_JOBS = "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT"
"""What a block left in the background ends with it."""

BLOCK = re.compile(r"(?:^(<!-- [^\n]* -->)\n)?^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
EXPORT = re.compile(r"^\$ export (\w+)=(\S+)$", re.MULTILINE)
UNSET = re.compile(r"^\$ unset (\w+)$", re.MULTILINE)


class Block(NamedTuple):
    kind: str
    text: str
    status: int = 0
    is_whole: bool = False
    is_run: bool = True


def parts(text: str) -> list[list[Block]]:
    """The blocks of each part that begins in an empty directory."""
    return [[_block(*found) for found in BLOCK.findall(part)] for part in text.split(APART)]


def _block(comment: str, kind: str, text: str) -> Block:
    status = STATUS.fullmatch(comment)
    return Block(kind, text, int(status[1]) if status else 0, comment == WHOLE, comment != NOT_RUN)


def prose(text: str) -> str:
    """The text without its blocks."""
    return BLOCK.sub("", text)


def timeless(line: str) -> str:
    """A line without times, rates, process ids and addresses, and with one space where a table has several."""
    line = re.sub(r"\b(rediss?|unix)://[^\s;,]+", "...", line)
    line = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d([,.]\d+)?|(?<=sequencer\[)\d+|\b\d{10}\.\d+", "...", line)
    line = re.sub(r"[+-]?\d+(\.\d+)? (m?s|min|h)\b|\b\d{16}\b", "... s", line)
    return " ".join(re.sub(r"\d+(?=/s\b)", "...", line).split())


def missing(text: str, printed: str) -> list[str]:
    """The lines of a text that were not printed, but for times and spaces."""
    lines = {timeless(line) for line in printed.splitlines()}
    return [line for line in text.splitlines() if timeless(line) not in lines]


def differences(text: str, printed: str) -> list[str]:
    """The lines that a text has and that were not printed as often, and the reverse, in any order."""
    shown, found = (Counter(map(timeless, lines.splitlines())) for lines in (text, printed))
    return [f"shown: {line}" for line in shown - found] + [f"printed: {line}" for line in found - shown]


@dataclass
class Place:
    """An empty directory with a server of its own, and the variables that blocks exported."""

    directory: Path
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def server(self) -> EmbeddedServer:
        return EmbeddedServer(self.directory / "home")


@contextmanager
def new_place() -> Iterator[Place]:
    place = Place(Path(tempfile.mkdtemp(prefix="sqr-")))
    try:
        yield place
    finally:
        place.server.stop()
        shutil.rmtree(place.directory)


def write(block: Block, directory: Path) -> str:
    """Write the file that a block of Python or TOML is; its name, else nothing."""
    file = re.match(r"# ([\w/]+\.(?:py|toml))\n", block.text)
    if block.kind not in ("python", "toml") or not file:
        return ""
    (directory / file[1]).parent.mkdir(exist_ok=True)
    (directory / file[1]).write_text(block.text)
    return file[1]


def run(block: Block, place: Place) -> str:
    """What a block printed, as a terminal shows it. Raises AssertionError where it ended otherwise than it should."""
    text, directory = block.text, place.directory
    if USERS_SERVER in text:
        place.server.start()
        text = text.replace(USERS_SERVER, place.server.url)
    place.variables |= dict(EXPORT.findall(text))
    for name in UNSET.findall(text):
        place.variables.pop(name, None)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SEQUENCER_")}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    environment |= {"SEQUENCER_HOME": str(directory / "home"), "SEQUENCER_EMBEDDED": "yes", "PYTHONUNBUFFERED": "1"}
    environment |= place.variables
    if (file := write(block, directory)).endswith(".toml"):
        return ""
    if file:
        words = [sys.executable, "-c", f"import {file.removesuffix('.py').replace('/', '.')}"]
    elif block.kind == "python":
        words = [sys.executable, "-W", "error", "-c", text]
    else:
        assert block.kind == "console", f"a block of kind {block.kind!r} is not run by any test"
        assert all(line.startswith("$ ") for line in text.splitlines()), text
        commands = [line.removeprefix("$ ") for line in text.splitlines()]
        words = ["bash", "-euo", "pipefail", "-c", "\n".join([END_JOBS, *commands])]
    done = subprocess.run(
        words,
        cwd=directory,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    printed = done.stdout.replace(place.server.url, USERS_SERVER)
    printed = printed.replace(str(directory / "home"), "/home/ann/.local/state/sequencer")
    printed = printed.replace(str(directory), "/home/ann/shop")
    printed = re.sub(r"\b[\w.-]+:\d+:[0-9a-f]{6}\b", "web1:4711:ae42a9", printed)
    assert done.returncode == block.status, f"{text}\nexit status {done.returncode}\n{printed}"
    assert "Traceback" not in printed or "group parked" in printed or "dead letter" in printed, printed
    return printed


def updated(text: str) -> str:
    """A page with what its blocks print now in those that hold all of it."""
    return APART.join(_updated_part(part) for part in text.split(APART))


def _updated_part(part: str) -> str:
    printed = ""

    def answer(found: re.Match[str]) -> str:
        nonlocal printed
        block = _block(*found.groups(default=""))
        if block.is_run and block.kind != "text":
            printed = run(block, place)
        if not block.is_whole:
            return found[0]
        lines = "".join(f"{line.rstrip()}\n" for line in printed.splitlines())
        return f"{WHOLE}\n```text\n{lines}```"

    with new_place() as place:
        return BLOCK.sub(answer, part)


def check(part: list[Block], *, is_shown: bool = False) -> None:
    """Run the blocks of a part and compare what they print with what the page shows. Raises AssertionError."""
    printed = ""
    with new_place() as place:
        for block in part:
            if not block.is_run:
                continue
            if block.kind == "text":
                different = (differences if block.is_whole else missing)(block.text, printed)
                assert not different, f"{different}\nnot what the block before it printed:\n{printed}"
            else:
                printed = run(block, place)
                if is_shown:
                    print(block.text, printed, sep="---\n", end="=====\n")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        for part in parts(PAGES[name]):
            check(part, is_shown=True)
    for name, text in PAGES.items():
        if WHOLE in text and not sys.argv[1:]:
            (ROOT / name).write_text(updated(text), encoding="utf-8")
            print(name)
