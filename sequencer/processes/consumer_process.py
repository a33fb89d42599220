"""One consumer process as its supervisor sees it: how it is started and stopped, and what it reported.

Its standard input is the control pipe, whose other end only the supervisor holds. Reports come by a pipe that all
consumers share, each line shorter than PIPE_BUF, so that lines never mix.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from ..texts.commands import server_named
from .handlers.exec import REDIS_VARIABLE
from .signals import STOP_SIGNALS
from .worker.config import WorkerConfig
from .worker.control_thread import HANGS
from .worker.in_progress import InProgress


def start_python(
    module: str,
    queue: str,
    fds: Sequence[int],
    *,
    env: Mapping[str, str | None] | None = None,
    cwd: str | None = None,
    stdout: int | None = None,
) -> tuple[subprocess.Popen[bytes], str | None]:
    """A module in an interpreter and a session of its own; and SEQUENCER_REDIS, with its password, which it reads from
    its standard input: what it starts would inherit the variable. `env`: variables beside those of this process, or
    None for one to leave out. Raises OSError.
    """
    environment = {name: value for name, value in {**os.environ, **(env or {})}.items() if value is not None}
    redis = environment.pop(REDIS_VARIABLE, None)
    process = subprocess.Popen(
        # -P: a folder named `sequencer` in the working directory must not stand in for this package.
        [sys.executable, "-P", "-m", module, queue],  # the queue is for `ps` alone
        stdin=subprocess.PIPE,
        stdout=stdout,
        pass_fds=fds,
        start_new_session=True,
        env=environment,
        cwd=cwd,
    )
    return process, redis


def tell(process: subprocess.Popen[bytes], data: bytes) -> None:
    """Write to its standard input, unless it died: it is reaped like any other."""
    assert process.stdin is not None
    with suppress(OSError):
        process.stdin.write(data)
        process.stdin.flush()


def close_stdin(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    with suppress(OSError):
        process.stdin.close()


class ConsumerProcess:
    """Raises OSError when it can't be started: no such program, no more processes."""

    MODULE = "sequencer.processes.worker.run"

    def __init__(
        self, config: WorkerConfig, *, env: Mapping[str, str | None] | None = None, cwd: str | None = None
    ) -> None:
        self._in_progress = InProgress()
        config = replace(config, hand_fd=self._in_progress.fd)
        fds = [fd for fd in (config.report_fd, config.hand_fd) if fd is not None]
        # A signal that comes before the consumer has its own handlers has to wait for them: a process that starts with
        # it blocked gets it then, and does not die of it.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        try:
            self._process, redis = start_python(self.MODULE, config.queue, fds, env=env, cwd=cwd)
        except BaseException:
            self._in_progress.close()
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        self.pid = self._process.pid
        self.started_at = time.monotonic()
        self.is_loaded = self.is_connected = self.has_begun = self.is_limited = False
        """Whether its app is imported; whether it is connected; whether its first handler began; whether a
        handler or a step has a time limit.
        """
        self.start_timeout_s = config.start_timeout_s
        self.stop_sent_at: float | None = None
        self.status: int | None = None
        """How it says that it ended; None while it works, and for one that was killed."""
        self.ended_at: float | None = None
        self.threads: list[str] = []
        """What keeps it from exiting."""
        self.counts: dict[str, int] = {}
        self.runs: list[float] = []
        """Of its handlers, by their time; see AnyConsumer."""
        self.command_group: int | None = None
        self.busy_s = 0.0
        self.works_from, self.longest_s = math.inf, math.inf
        """When it was connected; how long from then on it may live."""
        self.released_at: float | None = None
        """When it was asked, for its age, to release what it has."""
        self.heard_at = self.started_at
        self.is_killed = False
        given = replace(config, redis_variable=redis, named_server=server_named()).given()
        tell(self._process, json.dumps(given).encode() + b"\n")

    @property
    def returncode(self) -> int | None:
        return self._process.poll()

    @property
    def begun(self) -> dict[str, Any]:
        return self._in_progress.begun

    def send_stage(self, stage: int) -> None:
        self.stop_sent_at = self.stop_sent_at or time.monotonic()
        tell(self._process, str(stage).encode())

    def end_hung(self) -> None:
        """Its message hangs: stage 2, and that counts as an attempt."""
        tell(self._process, HANGS + b"2")

    def kill(self) -> None:
        self.is_killed = True
        self._process.kill()

    def close_control(self) -> None:
        """It stops by itself then, if it still runs."""
        close_stdin(self._process)

    def clean_up(self) -> None:
        """Its command must not go on beside its successor."""
        self.close_control()
        self._in_progress.close()
        if self.command_group is not None:
            with suppress(OSError):
                os.killpg(self.command_group, signal.SIGKILL)

    def apply_report(self, event: dict[str, Any]) -> None:
        self.heard_at = time.monotonic()
        match event["event"]:
            case "loaded":
                self.is_loaded = True
            case "started":
                self.is_loaded = self.is_connected = True
                self.works_from, self.is_limited = self.heard_at, event["is_limited"]
            case "began":
                self.has_begun = True
            case "state":
                self.counts, self.busy_s, self.runs = event["counts"], event["busy_s"], event["runs"]
            case "command":
                self.command_group = event["pgid"]
            case "exit":
                self.status, self.threads, self.ended_at = event["status"], event["threads"], self.heard_at


@dataclass(slots=True)
class Totals:
    """What the consumers of this run did, by their reports: without the last second of one that was killed."""

    handled: int = 0
    failed: int = 0
    outages: int = 0
    lost: int = 0
    parked: int = 0
    dead: int = 0
    dropped: int = 0
    started: int = 0
    died: int = 0
    killed: int = 0
    """By the service: at the third stage of a stop, or because they did not end."""
    unreported: int = 0
    """Consumers that had begun to handle, and ended without a last report: the counts are the least that was done."""
    seconds: float = 0.0

    def add(self, counts: dict[str, int], before: dict[str, int]) -> None:
        """What one consumer counted, and had counted before."""
        for name, count in counts.items():
            setattr(self, name, getattr(self, name) + count - before.get(name, 0))


class Reports:
    """The reading end of the pipe by which all consumers report, and the writing end that they are given."""

    def __init__(self) -> None:
        self.read_fd, self.write_fd = os.pipe()
        for fd in (self.read_fd, self.write_fd):
            os.set_blocking(fd, False)
        self._rest = b""

    def read(self) -> Iterator[dict[str, Any]]:
        """What has been reported, each event with its `pid`. What is no report of ours is left out."""
        with suppress(BlockingIOError):
            while piece := os.read(self.read_fd, 65536):
                self._rest += piece
        *lines, self._rest = self._rest.split(b"\n")
        for line in lines:
            with suppress(ValueError):  # an application wrote into a descriptor that is not its own
                event = json.loads(line)
                if isinstance(event, dict) and "event" in event and "pid" in event:
                    yield event

    def close(self) -> None:
        for fd in (self.read_fd, self.write_fd):
            os.close(fd)


AWAITED, AWAITED_LOCK = set[int](), threading.Lock()
"""Processes for whose end other threads wait: `reap_orphans` leaves their exit status to them. Who starts one holds the
lock until its number is here; meanwhile nothing is reaped.
"""


def reap_orphans(own: Collection[int]) -> None:
    """As process 1 of a container we inherit the orphans of others: reap those that have ended."""
    if not AWAITED_LOCK.acquire(blocking=False):
        return
    try:
        for _ in range(1000):
            try:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if found is None or found.si_pid in own or found.si_pid in AWAITED:
                return
            with suppress(ChildProcessError):
                os.waitpid(found.si_pid, os.WNOHANG)
    finally:
        AWAITED_LOCK.release()
