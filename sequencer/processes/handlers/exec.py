"""A shell command for each message: it is given the message's line, and how it ends is what became of the message.

What it says on standard error comes by a pipe, is passed on as it comes, and its end is kept for the text of a failure.
A command has ended when its /bin/sh has: what that left running in the background, with our pipe open, is not waited
for, and finds nobody at the other end from then on. Every command is a process group of its own, which is reported
to the supervisor while it runs.
"""

from __future__ import annotations

import math
import os
import re
import signal
import subprocess
import time
from contextlib import suppress

from ...consume.interruption import interrupts_allowed, interrupts_masked
from ...consume.stop import Report, Stop, ignore
from ...errors import CommandFailed, CommandNotFound, CommandStopped, HandlerNotFound, HandlerTimeout
from ...store.failure import TRACEBACK_BYTES
from ...values.message import Message
from ..signals import STOP_SIGNALS
from ..worker.in_progress import memory_file
from .pipes import CommandOutput, StderrRelay
from .printing import message_line

SHELL = "/bin/sh"
REDIS_VARIABLE = "SEQUENCER_REDIS"
STOP_S = 2.0
"""A signal for everybody reaches a command and its consumer within this time of each other."""
ENDING_S = 5.0
"""A command whose time is over, and what it started, has this time from SIGTERM to SIGKILL."""
REST_S = 0.02
"""How often to check, once the shell has ended, whether its process group has."""
NOT_RUN = (126, 127)
"""Exit statuses by which a shell says that a command can't be run or was not found."""

_PLAIN = r"[\w@%+:,./{}!-]"
_FIRST_WORD = re.compile(rf"\s*((?:[A-Za-z_]\w*={_PLAIN}*\s+)*)(?!\d+[<>])({_PLAIN}+)(?=[\s;&|<>]|$)(?!\s*\()")


def check_command(command: str) -> None:
    """Raises HandlerNotFound if the first word is no command, looked up as the shell does.

    Assignments before it are skipped. A word with quotes, expansions, globs or `~` is left to the shell.
    """
    found = _FIRST_WORD.match(command)
    if not found or "PATH=" in found[1]:
        return
    words, nothing = [SHELL, "-c", 'command -v -- "$1"', "sh", found[2]], subprocess.DEVNULL
    try:
        status = subprocess.run(words, stdin=nothing, stdout=nothing, stderr=nothing, check=False).returncode
    except OSError as error:
        raise HandlerNotFound("shell_missing", shell=SHELL, error=error.strerror) from error
    if status:
        raise HandlerNotFound("command_not_found", command=found[2], line=command)


class ExecHandler:
    """A non-zero exit status is a failure; the end of what it wrote to standard error is kept with it.

    When the consumer must stop now, the command and what it started are killed first, so that it can't go on beside
    its successor. A consumer that is
    killed outright can't do that: `report` tells the supervisor which group to kill then. (Where that is killed at the
    same time, the command goes on: `token` in the JSON tells the two apart.)

    A command that is ended by a signal about when `stop` is asked for, and one that can't be run at a consumer's first
    message, are no failures: StopConsuming. One that runs longer than `timeout_s` is ended by SIGTERM, and what is left
    of its process group after ENDING_S by SIGKILL: HandlerTimeout.

    The command gets our environment without SEQUENCER_REDIS, which may hold a password; `redis_url` is given to it so.
    """

    def __init__(
        self,
        command: str,
        *,
        stop: Stop | None = None,
        report: Report = ignore,
        redis_url: str | None = None,
        timeout_s: float | None = None,
    ) -> None:
        self._environment = {name: value for name, value in os.environ.items() if name != REDIS_VARIABLE}
        self._environment |= {} if redis_url is None else {REDIS_VARIABLE: redis_url}
        self._command, self._stop, self._report, self._timeout_s = command, stop, report, timeout_s
        self._words = [SHELL, "-c", command]
        self._relay = StderrRelay()
        self._is_first = True

    def __call__(self, message: Message) -> None:
        status, said, ended_at, by = self._run(message_line(message))
        is_first, self._is_first = self._is_first, False
        tail = said.strip()[-TRACEBACK_BYTES // 2 :].decode("utf-8", "replace").lstrip()
        fields = {"command": self._command, "status": status, "stderr": tail}
        if by:
            raise HandlerTimeout("command_timeout", **fields, limit_s=self._timeout_s, signal=by)
        if not status:
            return
        if is_first and status in NOT_RUN:
            raise CommandNotFound("command_not_run", **fields)
        if self._is_caused_by_stop(status, ended_at):
            raise CommandStopped(**fields)
        raise CommandFailed(**fields)

    def _run(self, line: bytes) -> tuple[int, bytes, float, str]:
        """Its status as Popen has it; the end of what it said; when it ended; by which signal of ours, or ""."""
        with interrupts_masked(), open(memory_file(), "w+b") as stdin:
            stdin.write(line)
            stdin.seek(0)
            try:
                with subprocess.Popen(
                    self._words, stdin=stdin, stderr=subprocess.PIPE, process_group=0, env=self._environment
                ) as process:
                    self._report({"event": "command", "pgid": process.pid})
                    output = CommandOutput(process, self._relay)
                    try:
                        by = self._wait_or_end(process, output)
                    except BaseException:
                        with suppress(ProcessLookupError):  # it has just ended
                            os.killpg(process.pid, signal.SIGKILL)
                        raise
                    ended_at = time.monotonic()
                    output.finish()
            finally:
                self._report({"event": "command", "pgid": None})
            return process.returncode, output.tail, ended_at, by

    def _wait_or_end(self, process: subprocess.Popen[bytes], output: CommandOutput) -> str:
        """Wait for the command's end, and bring it about when its time is over: by which signal, or ""."""
        if output.wait_for_end(math.inf if self._timeout_s is None else self._timeout_s):
            return ""
        with suppress(OSError):  # it has just ended
            os.killpg(process.pid, signal.SIGTERM)
        until = time.monotonic() + ENDING_S
        is_ended = output.wait_for_end(ENDING_S)
        with suppress(OSError):  # nobody of the group is left
            while process.poll() is not None and time.monotonic() < until:
                os.killpg(process.pid, 0)
                with interrupts_allowed():
                    time.sleep(REST_S)
            os.killpg(process.pid, signal.SIGKILL)
        output.wait_for_end()
        return "SIGTERM" if is_ended else "SIGKILL"

    def _is_caused_by_stop(self, status: int, ended_at: float) -> bool:
        """Whether the command ended by a signal that the consumer was sent as well; that may be known a little later.

        We send none of these. But an init system or a container runtime may send them to every process.
        """
        number = -status if status < 0 else status - 128
        if self._stop is None or number not in STOP_SIGNALS:
            return False
        while not self._stop.stage and time.monotonic() < ended_at + STOP_S:
            time.sleep(0.02)  # a second signal may interrupt it
        return self._stop.at is not None and abs(self._stop.at - ended_at) <= STOP_S
