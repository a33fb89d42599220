"""Canaries, a password and a payload, and the search for them in whatever this package says."""

from __future__ import annotations

import logging
import secrets
import subprocess
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .server import run_command

REPEAT = "python -m tests.faults security --only canary"


@dataclass
class Search:
    """Where the canaries were looked for, and where they were found."""

    password: str = field(default_factory=lambda: f"pw{secrets.token_hex(8)}")
    payload: str = field(default_factory=lambda: f"pl{secrets.token_hex(8)}")
    places: int = 0
    characters: int = 0
    problems: list[str] = field(default_factory=list)

    def look(self, place: str, text: str, *, shows_payload: bool = False) -> None:
        """Search one text."""
        self.places += 1
        self.characters += len(text)
        for name, word in (("password", self.password), ("payload", self.payload)):
            if word in text and not (shows_payload and name == "payload"):
                around = text[max(0, text.index(word) - 80) :][:200].replace(word, f"<the {name}>")
                self.problems.append(f"{place} shows the {name}: {around!r}; repeat: {REPEAT}")

    def look_at_error(self, place: str, error: BaseException | None) -> None:
        """Search everything that an error and its causes say."""
        for one in chain(error):
            self.look(place, f"{one!s}\n{one!r}\n{one.args!r}\n{vars(one)!r}")
            self.look(f"traceback of {place}", "".join(traceback.format_exception(one)))

    def command(
        self,
        words: Sequence[str],
        directory: Path,
        lines: str = "",
        *,
        status: int = 0,
        shows_payload: bool = False,
        **more: Any,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command at log level DEBUG, which ends with `status`, and search what it prints."""
        done = run_command(("--log-level", "DEBUG", *words), directory, lines, **more)
        name = " ".join(words).replace(self.password, "***")
        self.look(f"standard output of {name}", done.stdout, shows_payload=shows_payload)
        if done.returncode != status or (shows_payload and self.payload not in done.stdout):
            self.problems.append(f"{name} did not do what it should: {done.returncode}, {done.stderr[-200:]}")
        self.look(f"standard error of {name}", done.stderr)
        return done


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error, its causes and its contexts, each once."""
    waiting, seen = [error], set()
    while waiting:
        one = waiting.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            yield one
            waiting += [one.__cause__, one.__context__]


class _Logs(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []
        self.setFormatter(logging.Formatter("%(name)s %(levelname)s %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{self.format(record)} {record.args!r}")


@contextmanager
def logs() -> Iterator[list[str]]:
    """Every log line of this process at level DEBUG, ours and the driver's."""
    root, handler = logging.getLogger(), _Logs()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        yield handler.lines
    finally:
        root.setLevel(level)
        root.removeHandler(handler)
