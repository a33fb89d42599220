"""A command as a target: it gets the notice as a line of JSON on standard input, and takes it by exit status 0."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ....errors import ConfigurationError
from ...consumer_process import AWAITED
from ...handlers.exec import REDIS_VARIABLE
from ...signals import ending_text
from ..notice import DeliveryFailed, Notice


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
    """A command of the user's. Its standard output is dropped; its standard error is ours."""

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
                try:
                    process.communicate(notice.body() + b"\n", self.timeout_s)
                except BaseException:
                    with suppress(OSError):  # it has just ended
                        os.killpg(process.pid, signal.SIGKILL)
                    raise
        except subprocess.TimeoutExpired:
            raise DeliveryFailed(f"its command was killed, since it ran for {self.timeout_s:g} s") from None
        finally:
            AWAITED.pids.discard(process.pid)
        if process.returncode:
            raise DeliveryFailed(f"its command ended with {ending_text(process.returncode)}")

    def _start(self, notice: Notice) -> subprocess.Popen[bytes]:
        hidden = {*self.hidden, REDIS_VARIABLE}
        environment = {name: value for name, value in os.environ.items() if name not in hidden}
        environment |= {
            "SEQUENCER_ALERT_KEY": notice.key,
            "SEQUENCER_ALERT_INCIDENT": notice.incident,
            "SEQUENCER_ALERT_WHAT": notice.what,
            "SEQUENCER_ALERT_QUEUE": notice.queue,
            "SEQUENCER_ALERT_KIND": notice.kind,
        }
        return subprocess.Popen(
            self.words,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            process_group=0,
            cwd=self.directory,
            env=environment,
        )
