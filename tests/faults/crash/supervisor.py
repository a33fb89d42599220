"""Trials in which the supervisor is the victim: before it starts a consumer, between that and its configuration, and
while it replaces one that died.

A supervisor that is killed leaves nobody behind: its consumers see their standard input end, and stop, though there
is a message to wait for. One that is stopped is missed by nobody but a consumer that dies meanwhile, and that is
replaced. Either way a fresh supervisor finds everything in order.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from sequencer.client import Sequencer
from sequencer.processes.consumer_process import ConsumerProcess
from sequencer.processes.pool import Pool
from sequencer.processes.supervisor import Supervisor
from sequencer.processes.worker.config import WorkerConfig
from sequencer.processes.workers import RestartPolicy, Worker
from sequencer.settings.backoff import Backoff
from sequencer.store.group import encode_group
from sequencer.testing import Event, Recorder, judge, wait_until

from ..strays import end_strays, strays
from .app import DIRECTORY
from .child import PATIENCE_S, Child, read_counts, start, write_counts
from .points import Case, Points
from .verdict import EXPIRED, SLACK_S, Outcome, dishonesty, events_of
from .work import LEASE_S, clean

QUEUE, PROCESSES = "work", 2
GROUPS, MESSAGES = ("x", "y", "z"), 4
LATE, LATE_S = "late", 600.0
"""Group and id, and the delay, of a message that keeps consumers waiting until it is cancelled."""
ENDING_S = PATIENCE_S
"""The longest that consumers may go on after their supervisor was killed; an idle one looks once a second."""
RECOVER_S = LEASE_S + SLACK_S + 8.0
"""A fresh interpreter for the supervisor's consumers takes 0.3 s, and several times that on a busy machine."""


class PointedConfig(WorkerConfig):
    """The configuration of a consumer, which passes a point when it is about to be written."""

    def line(self) -> bytes:
        _POINTS[self.namespace].at("config:before")
        return WorkerConfig.line(self)


_POINTS: dict[str, Points] = {}
"""Namespace -> the points of its supervisor, which `dataclasses.replace` could not carry along."""


class PointedPool(Pool):
    """The consumers of a supervisor, with points around its decisions."""

    points: Points

    def _start_due(self) -> None:
        if self._workers.due(time.monotonic()):
            self.points.at("spawn:before")
        super()._start_due()

    def _after_end(self, worker: Worker, process: ConsumerProcess, returncode: int) -> None:
        self.points.at("reap:before")
        super()._after_end(worker, process, returncode)

    def _after_death(
        self, worker: Worker, process: ConsumerProcess, returncode: int, *, is_final: bool = False
    ) -> None:
        self.points.at("replace:before")
        super()._after_death(worker, process, returncode, is_final=is_final)
        self.points.at("replace:after")


class PointedSupervisor(Supervisor):
    """Of such a pool."""

    POOL = PointedPool


class SupervisorTrial:
    """One case on the server at `url`, in an empty `directory`."""

    def __init__(self, url: str, directory: Path, case: Case) -> None:
        self._url, self._directory, self._case = url, directory, case
        self._namespace = f"v{os.getpid()}x{time.monotonic_ns()}"
        self._children: list[Child] = []

    def run(self) -> Outcome:
        """The whole trial. Never raises for what it finds."""
        problems: list[str] = []
        drained_at = 0.0
        with Sequencer(QUEUE, self._url, namespace=self._namespace) as seq:
            self._append(seq)
            try:
                self._break(seq)
                outlived = self._strays()
                problems += [f"{len(outlived)} consumers outlived their supervisor"] if outlived else []
                left = seq.info().backlog
                problems += [f"{left} messages left at the end"] if left else []
                drained_at = time.monotonic()
            except AssertionError as error:
                problems.append(f"stuck: {error}")
            finally:
                for child in self._children:
                    child.end()
                end_strays(self._mark)
                clean(seq.endpoint, self._namespace)
        return self._outcome(problems, drained_at)

    def _append(self, seq: Sequencer) -> None:
        recorder = Recorder(self._directory / "producer.ndjson", "producer")
        for number in range(1, MESSAGES + 1):
            for group in GROUPS:
                name = {"group": encode_group([group]), "id": f"{group}-{number}", "score": float(number)}
                recorder.note("appending", **name)
                seq.append({}, [group], id=f"{group}-{number}", score=number)
                recorder.note("appended", kind="stored", **name)
        recorder.close()
        seq.append({}, [LATE], id=LATE, delay=LATE_S)

    def _break(self, seq: Sequencer) -> None:
        """Run the victim, and after it one that finishes the work."""
        victim = self._start("supervisor-0", self._case)
        wait_until(lambda: victim.poll() or seq.info().backlog <= 1, PATIENCE_S, "all messages but the late one")
        if victim.signal is not None:
            self._wait_for_consumers()
        seq.cancel([LATE], LATE)
        if victim.stopped_at is None:
            victim.wait()
        if victim.stopped_at is not None:
            until = victim.stopped_at + 2 * LEASE_S
            wait_until(lambda: time.monotonic() >= until, what="two leases")
            victim.resume()
            victim.wait()
        elif victim.signal is not None:
            self._wait_for_consumers()
        if victim.signal is None:
            assert victim.is_fine, f"the supervisor ended with wait status {victim.status}: {victim.said[-600:]}"
        fresh = self._start("supervisor-1", None)
        fresh.wait()
        assert fresh.is_fine, f"the fresh supervisor ended with wait status {fresh.status}: {fresh.said[-600:]}"

    def _wait_for_consumers(self) -> None:
        wait_until(lambda: not self._strays(), ENDING_S, "the end of the consumers of a killed supervisor")

    def _start(self, name: str, case: Case | None) -> Child:
        child = start(name, self._directory, lambda: self._supervise(name, case))
        self._children.append(child)
        return child

    def _supervise(self, name: str, case: Case | None) -> None:
        os.environ[DIRECTORY] = str(self._directory)
        with open(self._directory / f"{name}.err", "wb") as said:
            os.dup2(said.fileno(), 2)
        points = Points("supervisor", Recorder(self._directory / f"{name}.ndjson"), case)
        _POINTS[self._namespace] = points
        config = PointedConfig(
            queue=QUEUE,
            url=self._url,
            namespace=self._namespace,
            app="tests.faults.crash.app:handle",
            lease_s=LEASE_S,
            until_empty=True,
            settings={"backoff": 0.02},
        )
        policy = RestartPolicy(backoff=Backoff(base_s=0.02, cap_s=0.1))
        supervisor = PointedSupervisor(config, PROCESSES, policy=policy)
        PointedPool.points = points
        status = supervisor.run()
        write_counts(self._directory / f"{name}.json", points.passages)
        assert status == 0, f"the supervisor returned {status}"
        due, started = PROCESSES + points.passages["supervisor.replace:after"], supervisor.totals.started
        assert started == due, f"the supervisor started {started} consumers, not {due}: it does not replace the dead"

    @property
    def _mark(self) -> str:
        return f"{DIRECTORY}={self._directory}"

    def _strays(self) -> list[int]:
        """Consumers of this trial that still run."""
        return strays(self._mark)

    def _outcome(self, problems: list[str], drained_at: float) -> Outcome:
        events = events_of(self._directory)
        fault = next((event for event in events if event.what == "fault" and event.id == self._case.point), None)
        if fault:
            problems += dishonesty(self._case, self._children[0])
            events += [Event("healed", fault.at), Event("drained", drained_at or time.monotonic())]
        expected = [self._case.kind] if fault else []
        said = "".join(path.read_text(errors="replace") for path in self._directory.glob("*.err"))
        killed = {event.who for event in events if event.what == "fault"}
        verdict = judge(events, recover_s=RECOVER_S if fault else None, expected=expected)
        return Outcome(
            case=self._case,
            variant=self._case.variant,
            is_reached=fault is not None,
            problems=(*problems, *verdict.cases),
            passages=read_counts(self._directory / "supervisor-0.json"),
            messages=verdict.messages,
            losses=verdict.losses,
            order_violations=verdict.disorder,
            duplicates=verdict.duplicates,
            duplicates_allowed=verdict.duplicates_allowed,
            recovery_s=verdict.recovery_s,
            is_disturbed="lease lost" in said or bool(set(EXPIRED.findall(said)) - killed),
        )
