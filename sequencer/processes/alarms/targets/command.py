"""A command as a target: it gets the notice as a line of JSON on standard input, and takes it by exit status 0."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ....errors import ConfigurationError
from ....texts.words import error_text
from ...consumer_process import AWAITED
from ...handlers.exec import REDIS_VARIABLE
from ...handlers.pipes import CommandPipes, StderrRelay
from ...signals import ending_text
from ..notice import DeliveryFailed, Notice

SAID_CHARACTERS = 200
"""Of what a command said on standard error: its last line, in the text of a failure."""


def words_of(command: str, directory: Path) -> tuple[str, ...]:
    """The words of a command; no shell reads it. The first is a program: with a slash in it relative to `directory`,
    else looked up in PATH. Raises ConfigurationError.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ConfigurationError(f"exec can't be split into words: {str(error).lower()}") from error
    if not words:
        raise ConfigurationError("exec is empty; give the command that tells people")
    program = str(directory / words[0]) if "/" in words[0] else words[0]
    if (found := shutil.which(program)) is None:
        raise ConfigurationError(f"exec: there is no command {words[0]!r} that can be run")
    return (found, *words[1:])


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command of the user's. Its standard output is dropped."""

    name: str
    words: tuple[str, ...]
    directory: Path
    """It runs there."""
    hidden: frozenset[str]
    """Variables that it is not given, besides the one of the server."""
    timeout_s: float
    kind: str = "command"

    def send(self, notice: Notice) -> None:
        """Raises DeliveryFailed. When its time is over, it is killed with its process group."""
        try:
            with AWAITED.lock:
                process = self._start(notice)
                AWAITED.pids.add(process.pid)
        except OSError as error:
            raise DeliveryFailed(f"its command can't be run: {error.strerror}") from None
        try:
            with process:
                is_ended, said = self._watch(process, notice.body() + b"\n")
        finally:
            AWAITED.pids.discard(process.pid)
        if process.returncode or not is_ended:
            ending = ending_text(process.returncode) if is_ended else f"SIGKILL, since it ran for {self.timeout_s:g} s"
            raise DeliveryFailed(f"its command ended with {ending}{_last_line(said)}")

    def _start(self, notice: Notice) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self.words,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            process_group=0,
            cwd=self.directory,
            env=_environment(notice, self.hidden),
        )

    def _watch(self, process: subprocess.Popen[bytes], line: bytes) -> tuple[bool, bytes]:
        """Until it ends, or is ended: whether it ended by itself, and the end of what it said on standard error."""
        relay = StderrRelay()
        relay.fd = -1  # what it says is not passed on
        pipes, is_ended = CommandPipes(process, line, relay, -1), False
        try:
            is_ended = pipes.wait_for_end(self.timeout_s)
        finally:
            if not is_ended:
                with suppress(OSError):  # it has just ended
                    os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        pipes.finish()
        return is_ended, pipes.stderr_tail


def _environment(notice: Notice, hidden: Collection[str]) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if name not in hidden and name != REDIS_VARIABLE}
    return inherited | {
        "SEQUENCER_ALARM_KEY": notice.key,
        "SEQUENCER_ALARM_INCIDENT": notice.incident,
        "SEQUENCER_ALARM_WHAT": notice.what,
        "SEQUENCER_ALARM_QUEUE": notice.queue,
        "SEQUENCER_ALARM_KIND": notice.kind,
    }


def _last_line(said: bytes) -> str:
    lines = said.decode("utf-8", "replace").split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f": {error_text(last[:SAID_CHARACTERS])}" if last else ""
