"""What many groups do at an operator's word: in a thread, with progress and a stop. One job of a queue at a time."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from ..errors import SequencerError

Progress = Callable[[int, int], None]
log = logging.getLogger("sequencer")


class _Stopped(Exception):
    pass


@dataclass
class Job:
    """One that runs, or the last one of its queue."""

    action: str
    error: str | None
    """The error whose groups it is about; None: all."""
    who: str
    total: int
    """How many an operator saw beforehand."""
    done: int = 0
    state: Literal["running", "stopped", "finished", "failed"] = "running"
    problem: str = ""
    began_at: float = field(default_factory=time.time)
    is_stopping: bool = False

    def progress(self, done: int, total: int) -> None:
        self.done, self.total = done, total
        if self.is_stopping:
            raise _Stopped


class Jobs:
    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._lock = threading.Lock()

    def of(self, queue: str) -> Job | None:
        return self._jobs.get(queue)

    def start(self, queue: str, job: Job, run: Callable[[Progress], Any], ended: Callable[[Job], None]) -> None:
        """`run` is given what to call after each page. Raises SequencerError while another one runs."""
        with self._lock:
            last = self._jobs.get(queue)
            if last and last.state == "running":
                raise SequencerError("job_runs", queue=queue, action=last.action, done=last.done, total=last.total)
            self._jobs[queue] = job
        # A daemon: the end of the program ends it between two pages, of which each is whole.
        threading.Thread(target=self._run, args=(job, run, ended), daemon=True, name=f"sequencer {job.action}").start()

    def stop(self, queue: str) -> bool:
        """Stop after the page that is being done. False if nothing runs."""
        job = self._jobs.get(queue)
        if job is None or job.state != "running":
            return False
        job.is_stopping = True
        return True

    @staticmethod
    def _run(job: Job, run: Callable[[Progress], Any], ended: Callable[[Job], None]) -> None:
        try:
            run(job.progress)
            job.state = "finished"
        except _Stopped:
            job.state = "stopped"
        except SequencerError as error:
            job.problem, job.state = str(error), "failed"
        except Exception as error:
            log.exception("a job of the dashboard failed: %s", job.action)
            job.problem, job.state = type(error).__name__, "failed"
        ended(job)
