"""The parent's end of a set of benchmark processes: start, wait until all are ready, go, end, collect reports.

Every wait has a limit, and leaving the block ends every process, whatever happened in it. See `member` for the other
end.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType

from .member import Job, Report
from .placement import place

READY_S = 60.0
"""Enough for an interpreter to start and to make a million messages on a busy machine."""


class MemberFailed(Exception):
    """A producer or consumer process died, or was not done in time."""


class Fleet:
    """Processes that begin together. A context manager: none is left at its end."""

    def __init__(self, jobs: Sequence[Job], cpus: set[int] | None = None) -> None:
        """`cpus`: the processors they may run on; None for any."""
        self._jobs, self._cpus = jobs, cpus
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Fleet:
        try:
            for job in self._jobs:
                process = subprocess.Popen(
                    # -P: a folder named `sequencer` in the working directory must not stand in for this package.
                    [sys.executable, "-P", "-m", job.module],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    bufsize=0,
                    start_new_session=True,  # Ctrl-C reaches the parent alone, which then ends all of them
                )
                self._processes.append(process)
                place(process.pid, self._cpus)
                self._tell(process, job.line())
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe:
                    pipe.close()

    def wait_ready(self) -> None:
        """Return when every process waits for `go`. Raises MemberFailed."""
        until = time.monotonic() + READY_S
        for job, process in zip(self._jobs, self._processes, strict=True):
            assert process.stdout is not None
            readable, _, _ = select.select([process.stdout], [], [], max(0.0, until - time.monotonic()))
            if not readable or process.stdout.readline() != b"ready\n":
                raise MemberFailed(f"{job.system}: a process to {job.role} was not ready")

    def go(self) -> float:
        """Let all begin; returns the time of it (CLOCK_MONOTONIC)."""
        began = time.monotonic()
        for process in self._processes:
            self._tell(process, b"go\n")
        return began

    @property
    def has_died(self) -> bool:
        """Whether a process ended before it was told to."""
        return any(process.poll() is not None for process in self._processes)

    def end(self) -> None:
        """Tell all to finish."""
        for process in self._processes:
            if process.stdin:
                process.stdin.close()

    def wait(self, seconds: float) -> list[Report]:
        """Wait until all have ended by themselves. Raises MemberFailed."""
        until, reports = time.monotonic() + seconds, []
        for job, process in zip(self._jobs, self._processes, strict=True):
            try:
                status = process.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise MemberFailed(f"{job.system}: not done to {job.role} after {seconds:.0f} s") from None
            assert process.stdout is not None
            if status:
                raise MemberFailed(f"{job.system}: a process to {job.role} ended with status {status}")
            reports.append(Report(**json.loads(process.stdout.read())))
        return reports

    @staticmethod
    def _tell(process: subprocess.Popen[bytes], line: bytes) -> None:
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # it died: said by the wait that follows
            process.stdin.write(line)
