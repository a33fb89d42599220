"""Runs the blocks of the READMEs as they stand there, and shows what they print.

A block of kind `text` holds lines that the block before it printed. Below the comment in WHOLE it holds all of them:
`python -m tests.support.readme_blocks` runs those READMEs and writes what they print into such blocks. Only the names
of folders and the columns of blanks at the end of a line are changed.
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
from pathlib import Path
from typing import NamedTuple

from sequencer import EmbeddedServer

ROOT = Path(__file__).parents[2]
FOUND = [path for path in ROOT.glob("**/README.md") if not re.search(r"/(\.|node_modules/|build/)", path.as_posix())]
READMES = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in sorted(FOUND)}

APART = "<!-- the blocks from here on run in a directory of their own -->"
WHOLE = "<!-- all that it printed; `python -m tests.support.readme_blocks` writes it again -->"
STATUS = re.compile(r"<!-- exit status (\d+) -->")
"""In the line above a block whose last command ends so."""

END_JOBS = "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT"
"""What a block left in the background ends with it."""

BLOCK = re.compile(r"(?:^(<!-- [^\n]* -->)\n)?^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    kind: str
    text: str
    status: int = 0
    is_whole: bool = False


def parts(text: str) -> list[list[Block]]:
    """The blocks of each part that begins in an empty directory."""
    return [[_block(*found) for found in BLOCK.findall(part)] for part in text.split(APART)]


def _block(comment: str, kind: str, text: str) -> Block:
    status = STATUS.fullmatch(comment)
    return Block(kind, text, int(status[1]) if status else 0, comment == WHOLE)


def prose(text: str) -> str:
    """The text without its blocks."""
    return BLOCK.sub("", text)


def timeless(line: str) -> str:
    """A line without times, rates, process ids and addresses, and with one space where a table has several."""
    line = re.sub(r"\b(rediss?|unix)://[^\s;,]+", "...", line)
    line = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d([,.]\d+)?|(?<=sequencer\[)\d+|\b\d{10}\.\d+", "...", line)
    line = re.sub(r"\d+(\.\d+)? (m?s|min|h)\b|\b\d{16}\b", "... s", line)
    return " ".join(re.sub(r"\d+(?=/s\b)", "...", line).split())


def unsaid(text: str, said: str) -> list[str]:
    """The lines of a text that were not said, but for times and spaces."""
    lines = {timeless(line) for line in said.splitlines()}
    return [line for line in text.splitlines() if timeless(line) not in lines]


def differences(text: str, said: str) -> list[str]:
    """The lines that a text has and that were not said so often, and the reverse. Processes say theirs in any order."""
    shown, heard = (Counter(map(timeless, lines.splitlines())) for lines in (text, said))
    return [f"shown: {line}" for line in shown - heard] + [f"said: {line}" for line in heard - shown]


@contextmanager
def place() -> Iterator[Path]:
    """An empty directory, and an end for the embedded server that is started in it."""
    directory = Path(tempfile.mkdtemp(prefix="sqr-"))
    try:
        yield directory
    finally:
        EmbeddedServer(directory / "home").stop()
        shutil.rmtree(directory)


def write(block: Block, directory: Path) -> str:
    """The name of the file that a block of Python or TOML is, which is written; else nothing."""
    file = re.match(r"# ([\w/]+\.(?:py|toml))\n", block.text)
    if block.kind not in ("python", "toml") or not file:
        return ""
    (directory / file[1]).parent.mkdir(exist_ok=True)
    (directory / file[1]).write_text(block.text)
    return file[1]


def run(block: Block, directory: Path) -> str:
    """What a block printed, as a terminal shows it; AssertionError where it ended otherwise than it should."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SEQUENCER_")}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    environment |= {"SEQUENCER_HOME": str(directory / "home"), "PYTHONUNBUFFERED": "1"}
    kind, text, status, _ = block
    if (file := write(block, directory)).endswith(".toml"):
        return ""
    if file:
        words = [sys.executable, "-c", f"import {file.removesuffix('.py')}"]
    elif kind == "python":
        words = [sys.executable, "-W", "error", "-c", text]
    else:
        assert kind == "console", f"a block of kind {kind!r} is not run by any test"
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
        timeout=60,
        check=False,
    )
    said = done.stdout.replace(str(directory / "home"), "/home/ann/.local/state/sequencer")
    said = said.replace(str(directory), "/home/ann/shop")
    assert done.returncode == status, f"{text}\nexit status {done.returncode}\n{said}"
    assert "Traceback" not in said or "group parked" in said or "dead letter" in said, said
    return said


def rewritten(text: str) -> str:
    """A README with what its blocks print now in those that hold a whole answer."""
    return APART.join(_rewritten_part(part) for part in text.split(APART))


def _rewritten_part(part: str) -> str:
    said = ""

    def answer(found: re.Match[str]) -> str:
        nonlocal said
        block = _block(*found.groups(default=""))
        if block.kind != "text":
            said = run(block, directory)
        if not block.is_whole:
            return found[0]
        lines = "".join(f"{line.rstrip()}\n" for line in said.splitlines())
        return f"{WHOLE}\n```text\n{lines}```"

    with place() as directory:
        return BLOCK.sub(answer, part)


if __name__ == "__main__":
    for name, text in READMES.items():
        if WHOLE in text:
            (ROOT / name).write_text(rewritten(text), encoding="utf-8")
            print(name)
