"""Changes of the consumer process: how it hears signals and its supervisor, prints, and runs commands."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from typing import Any

from sequencer.calls import settle
from sequencer.consume import interruption, threads
from sequencer.consume.time_limit import TimeLimit
from sequencer.drain import held, protocol
from sequencer.drain.batch import BatchSize
from sequencer.processes.handlers import exec as exec_
from sequencer.processes.handlers import printing
from sequencer.processes.handlers.pipes import WRITE_BYTES, CommandPipes, StderrRelay
from sequencer.processes.handlers.printing import Printer
from sequencer.processes.signals import STOP_SIGNALS
from sequencer.processes.worker import control_thread, run
from sequencer.processes.worker.control_thread import ControlThread
from sequencer.processes.worker.run import Worker

from .controls import by_name, put


def hurried() -> None:
    """No control: a consumer without a supervisor is patient for a second only, and reports more often."""
    control_thread.ORPHAN_S, control_thread.TICK_S = 1.0, 0.1


def claims_many() -> None:
    """No control: a consumer's first claim takes as many messages as there are."""
    put(protocol, "BatchSize", lambda limits: BatchSize(limits, messages=limits.messages))


def no_temporary_folder() -> None:
    """No control: as where no folder can be written."""
    put(tempfile, "_candidate_tempdir_list", list)
    put(tempfile, "tempdir", None)


def hears_what_was_ignored() -> None:
    """A signal that was ignored at the start is taken all the same."""
    put(run, "stop_signals_in_use", lambda: list(STOP_SIGNALS))


def command_outlives() -> None:
    """The kernel does not kill the command of a consumer that has ended."""
    put(exec_, "_kill_with_parent_words", list)


def second_signal_interrupts() -> None:
    """A consumer counts its signals: the second one interrupts what runs."""

    def take(self: Worker) -> None:
        count = 0

        def hear(*_: Any) -> None:
            nonlocal count
            count += 1
            self._control.begin_stop()
            if count > 1 and self._control.consumer is not None:
                self._control.consumer.interrupt()

        for number in STOP_SIGNALS:
            signal.signal(number, hear)
        interruption.hear(self._interrupt)

    put(Worker, "_set_handlers", take)


def deaf_while_importing() -> None:
    """Signals have their default action until the application is imported."""

    def listen(self: Worker) -> None:
        interruption.hear(self._interrupt)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
        self._control.start()

    put(Worker, "enable_signals", listen)


def no_look_at_the_stage() -> None:
    """SIGUSR2 interrupts, whoever sent it."""

    def interrupt(self: Worker, *_: Any) -> None:
        if self._control.consumer is not None:
            self._control.consumer.interrupt()

    put(Worker, "_interrupt", interrupt)


def end_of_pipe_unheard() -> None:
    """A consumer does not notice that its supervisor is gone."""
    hear = ControlThread._read_stages

    def hear_stages(self: ControlThread, stages: bytes) -> None:
        if stages:
            hear(self, stages)
        else:
            time.sleep(0.1)

    put(ControlThread, "_read_stages", hear_stages)


def never_ends_alone() -> None:
    """Without a supervisor nobody interrupts what runs, or ends what can't be interrupted."""
    put(ControlThread, "_end_orphan", lambda self, now: None)


def copies_stay() -> None:
    """The child of a handler that forked goes on as if it were the consumer."""
    put(threads, "exit_child", lambda error: None)


def nobody_looks() -> None:
    """Nobody asks who holds the output."""
    put(Printer, "on_tick", lambda self, now: None)


def kills_while_output_stands() -> None:
    """Who holds the output for long is killed, whether or not anybody reads it."""
    put(printing, "takes_something", lambda output_fd: True)


def everybodys_signal_counts() -> None:
    """A command that a stop for everybody ended has failed."""
    exec_._Command._is_caused_by_stop = lambda self, status, ended_at: False  # type: ignore[method-assign]


def saying_fails() -> None:
    """What can't be passed on is an error of the command's handler."""

    def pass_on(self: StderrRelay, is_ready: bool) -> None:
        self.waiting = self.waiting[os.write(self.fd, self.waiting[:WRITE_BYTES]) :]

    put(StderrRelay, "pass_on", pass_on)


def waits_for_the_pipe() -> None:
    """A command has ended when nobody holds the pipe of its standard error any more."""
    go_on = CommandPipes._run_round

    def wait_for_all(self: CommandPipes, until: float | None) -> bool:
        return go_on(self, until) and not self._is_stderr_open

    put(CommandPipes, "_run_round", wait_for_all)


def any_status_counts() -> None:
    """A command that can't be run has failed, like any other."""
    put(exec_, "NOT_RUN", ())


def never_interrupts() -> None:
    """A handler that takes too long is left alone."""
    put(TimeLimit, "look", lambda self, now: False)


def blames_nobody() -> None:
    """The last renewal of a stuck handler's lease is one like any other."""
    put(held, "renew", lambda *given, **more: settle.renew(*given, **{**more, "alone": False}))


CHANGES = by_name(
    *(never_interrupts, blames_nobody),
    *(
        hurried,
        claims_many,
        no_temporary_folder,
        second_signal_interrupts,
        deaf_while_importing,
        hears_what_was_ignored,
    ),
    *(no_look_at_the_stage, end_of_pipe_unheard, never_ends_alone, copies_stay, nobody_looks),
    *(kills_while_output_stands, everybodys_signal_counts, command_outlives, saying_fails, waits_for_the_pipe),
    *(any_status_counts,),
)
