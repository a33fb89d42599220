"""Changes of the supervisor, of the command's start, and of what the supervisor starts consumers with."""

from __future__ import annotations

import importlib
import os
import re
import signal
import sys
import tempfile
import time
from contextlib import redirect_stderr
from io import StringIO
from types import SimpleNamespace
from typing import Any

from sequencer.cli import append, consume, remainder
from sequencer.cli.tally import Tally
from sequencer.consume.stop import ignore
from sequencer.processes import consumer_process, pool, signals, supervisor
from sequencer.processes.consumer_process import ConsumerProcess
from sequencer.processes.liveness import Liveness
from sequencer.processes.master import kept_pool
from sequencer.processes.master.kept_pool import KeptPool
from sequencer.processes.master.plan import PoolPlan
from sequencer.processes.pool import Pool
from sequencer.processes.shared_reports import SharedReports
from sequencer.processes.signals import STOP_SIGNALS
from sequencer.processes.supervisor import PoolLoop
from sequencer.processes.workers import RestartPolicy, Worker, Workers
from sequencer.settings.backoff import Backoff
from sequencer.texts.events import Event, event

from .controls import by_name, put

HURRIED = RestartPolicy(backoff=Backoff(base_s=0.02, cap_s=0.1))


def hurried() -> None:
    """No control: consumers are replaced sooner, for cases with many deaths."""
    put(pool, "RestartPolicy", lambda: HURRIED)


def no_temporary_folder() -> None:
    """No control: as where no folder can be written."""
    put(tempfile, "_candidate_tempdir_list", list)
    tempfile.tempdir = None


def started_unblocked() -> None:
    """A consumer's signals are not blocked until it can hear them."""
    put(consumer_process, "STOP_SIGNALS", ())


def no_grace() -> None:
    """Stage 2 comes by a second signal only."""

    def look(self: Pool) -> None:
        self._shared.tick(time.monotonic())

    put(Pool, "_on_tick", look)


def hears_what_was_ignored() -> None:
    """A signal that was ignored at the start is taken all the same."""
    put(signals, "stop_signals_in_use", lambda: STOP_SIGNALS)


def orphans_stay() -> None:
    """As process 1, what others left behind is not reaped."""
    put(supervisor, "reap_orphans", lambda own: None)


def deaf_at_first() -> None:
    """As process 1, nothing is done about signals before the supervisor hears them."""
    put(_start(), "os", SimpleNamespace(getpid=lambda: 2, _exit=os._exit))


def supervisor_lingers() -> None:
    """The command waits for all threads of the application."""
    put(_start(), "threading", SimpleNamespace(enumerate=list))


def append_says_nothing() -> None:
    """An interrupted `append` only ends."""
    put(append, "say_interrupted", lambda *_, **__: None)


def append_lies() -> None:
    """An interrupted `append` goes on from the beginning."""
    say = remainder.say_interrupted

    def lie(tally: Tally, *rest: Any, **more: Any) -> None:
        with redirect_stderr(StringIO()) as said:
            say(tally, *rest, **more)
        print(re.sub("--from-line [0-9]+", "--from-line 1", said.getvalue()), file=sys.stderr)

    put(append, "say_interrupted", lie)


def start_ends_the_service() -> None:
    """A consumer that can't be started ends the supervisor."""

    def start(self: Pool) -> None:
        for worker in self._workers.due(time.monotonic()):
            worker.process = self._start(worker)

    put(Pool, "_start_due", start)
    put(PoolLoop, "_run_safely", lambda self, pool: pool.run_round())


def no_death_counts() -> None:
    """No number of deaths is too high."""
    put(Workers, "_is_standing", lambda self, worker: False)


def every_death_counts() -> None:
    """A death in a handler counts like one before any."""
    take = ConsumerProcess.apply_report

    def take_most(self: ConsumerProcess, event: dict[str, Any]) -> None:
        if event["event"] != "began":
            take(self, event)

    put(ConsumerProcess, "apply_report", take_most)


def lingers_for_ever() -> None:
    """A consumer that has ended its work and does not exit is waited for."""
    put(pool, "EXIT_TIMEOUT_S", 1e9)
    put(Pool, "_exit_timeout_s", 1e9)


def telling_raises() -> None:
    """The loop has no net, and what can't be written raises in it."""

    def tell(self: Pool, event: Event) -> None:
        os.write(2, f"{event.text}\n".encode())

    put(Pool, "emit", tell)
    put(PoolLoop, "_run_safely", lambda self, pool: pool.run_round())


def dead_do_not_count() -> None:
    """Only a consumer that ends well is counted."""
    clean_up = ConsumerProcess.clean_up

    def forget(self: ConsumerProcess) -> None:
        clean_up(self)
        if self.status is None:
            self.counts = {}

    put(ConsumerProcess, "clean_up", forget)


def command_outlives() -> None:
    """A dead consumer's command is left alone: by the supervisor, and by the kernel."""
    put(ConsumerProcess, "clean_up", ConsumerProcess.close_control)


def any_word_is_a_command() -> None:
    """What can't be found is noticed by consumers only."""
    put(consume, "check_command", ignore)


def lock_in_a_folder() -> None:
    """The lock of the output is a file in a folder for temporary files."""
    put(supervisor, "lock_file", lambda: tempfile.mkstemp()[0])


def torn_line_stays() -> None:
    """A line that a run before this one left open is not ended."""
    put(supervisor, "mark_torn_line", lambda *_: None)


def each_is_told() -> None:
    """The loss of the server, and its return, are told for each consumer."""
    take = SharedReports.add_report

    def take_each(self: SharedReports, report: dict[str, Any], now: float) -> None:
        if report["event"] in ("server lost", "server back"):
            self._emit(event(report["event"], self._queue, "once more", {}))
        else:
            take(self, report, now)

    put(SharedReports, "add_report", take_each)


def each_lease_is_told() -> None:
    """A lease that was waited for is told by itself."""
    take = SharedReports.add_report

    def take_each(self: SharedReports, event: dict[str, Any], now: float) -> None:
        take(self, event, now)
        self.tick(now, is_last=True)

    put(SharedReports, "add_report", take_each)


def stuck_unheard() -> None:
    """A consumer says in vain that its handler can't be ended."""
    take = Pool._take_report

    def take_others(self: Pool, report: dict[str, Any], by_pid: Any) -> None:
        if report["event"] != "stuck":
            take(self, report, by_pid)

    put(Pool, "_take_report", take_others)


def nobody_listens() -> None:
    """Nobody asks for signs of life."""
    put(Liveness, "tick", lambda self, processes, now: [])


def one_ends_all() -> None:
    """A queue whose consumers die at their start ends the whole run."""

    def give_up(self: KeptPool, worker: Worker) -> None:
        Pool._give_up(self, worker)
        os.kill(os.getpid(), signal.SIGTERM)

    put(KeptPool, "_give_up", give_up)


def hung_ones_stay() -> None:
    """Nobody looks at the age of a consumer that does not end."""
    put(KeptPool, "_end_overdue", lambda self, process, now: None)


def all_at_once() -> None:
    """A reload stops all consumers, and starts the new ones then."""

    def replace_all(self: KeptPool, plan: PoolPlan) -> None:
        self._adopt(kept_pool.Replacement(plan, []))
        for worker, process in self.running:
            self._leave(worker, process)
            self._workers.add()

    put(KeptPool, "replace_all", replace_all)


def _start() -> Any:
    return importlib.import_module("sequencer_start")


CHANGES = by_name(
    *(
        hurried,
        no_temporary_folder,
        started_unblocked,
        no_grace,
        hears_what_was_ignored,
        orphans_stay,
    ),
    *(deaf_at_first, supervisor_lingers, append_says_nothing, append_lies, start_ends_the_service, no_death_counts),
    *(every_death_counts, lingers_for_ever, telling_raises, dead_do_not_count, command_outlives),
    *(stuck_unheard, nobody_listens, one_ends_all, hung_ones_stay, all_at_once),
    *(any_word_is_a_command, lock_in_a_folder, torn_line_stays, each_is_told, each_lease_is_told),
)
