"""The parent's end of one worker process, in whatever language: start it on its processors, ready, go, result."""

from __future__ import annotations

import json
import os
import select
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ..load.fleet import READY_S, MemberFailed
from .workers.player import Part
from .workers.stage import Job


@contextmanager
def processors(cpus: set[int] | None) -> Iterator[None]:
    """Processes started in this block run on these only, with every thread: a Node process makes threads at once, so
    that placing it when it runs comes too late for them.
    """
    if not cpus:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class Hand:
    """One process. A context manager: it is gone at the end."""

    def __init__(self, command: Sequence[str], job: Job | Part, cpus: set[int] | None, **where: Any) -> None:
        """`where`: `cwd` and `env` of the process."""
        self._command, self._job, self._cpus, self._where = command, job, cpus, where

    def __enter__(self) -> Self:
        self._errors = tempfile.TemporaryFile()
        with processors(self._cpus):
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                bufsize=0,
                start_new_session=True,
                **self._where,
            )
        self._tell(json.dumps(asdict(self._job)).encode() + b"\n")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._errors):
            if pipe:
                pipe.close()

    def run(self, seconds: float) -> Mapping[str, Any]:
        """Wait until it is ready, let it go, and return what it wrote. Raises MemberFailed."""
        self.wait_ready()
        self.go()
        self.wait(seconds)
        return self.result()

    def result(self) -> Mapping[str, Any]:
        """What it wrote at its end."""
        result: Mapping[str, Any] = json.loads(Path(self._job.result).read_bytes())
        return result

    def wait_ready(self) -> None:
        """Return when it waits for `go`. Raises MemberFailed."""
        assert self._process.stdout is not None
        until, said = time.monotonic() + READY_S, b""
        while not said.endswith(b"ready\n"):
            readable, _, _ = select.select([self._process.stdout], [], [], max(0.0, until - time.monotonic()))
            piece = self._process.stdout.read(4096) if readable else b""
            if not piece:
                raise MemberFailed(f"a process to {self._job.role} was not ready{self._complaint()}")
            said += piece

    def go(self) -> None:
        """Let it begin."""
        self._tell(b"go\n")

    def end(self) -> None:
        """Tell a consumer to write its result and to end."""
        if self._process.stdin:
            self._process.stdin.close()

    def kill(self) -> float:
        """End it as `kill -9` does; returns when (CLOCK_MONOTONIC)."""
        self._process.kill()
        self._process.wait()
        return time.monotonic()

    @property
    def has_died(self) -> bool:
        """Whether it ended."""
        return self._process.poll() is not None

    def wait(self, seconds: float) -> None:
        """Wait until it ended well by itself. Raises MemberFailed."""
        try:
            status = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise MemberFailed(f"not done to {self._job.role} after {seconds:.0f} s{self._complaint()}") from None
        if status:
            raise MemberFailed(f"a process to {self._job.role} ended with status {status}{self._complaint()}")

    def _tell(self, line: bytes) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it died: said by the wait that follows
            self._process.stdin.write(line)

    def _complaint(self) -> str:
        """The last line of standard error."""
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return f": {lines[-1][:200]}" if lines else ""
