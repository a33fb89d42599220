"""Changes of the command and its consumers, by name in SQ_SIGNALS: each control brings back what was wrong once.

Both processes apply all that are named: what belongs to the other one changes nothing here.
"""

from __future__ import annotations

import os
import signal
import time
from typing import Any

from sequencer.consume import interruption
from sequencer.processes import signals, workers
from sequencer.processes.consumer_process import ConsumerProcess
from sequencer.processes.pool import Pool
from sequencer.processes.signals import STOP_SIGNALS
from sequencer.processes.worker import control_thread, run
from sequencer.processes.worker.control_thread import ControlThread
from sequencer.processes.worker.run import SupervisedConsumer
from sequencer.settings.backoff import Backoff

VARIABLE = "SQ_SIGNALS"


def put(where: Any, name: str, value: Any) -> None:
    """Put it there. Raises AttributeError for what is not there: a control that changes nothing is none."""
    getattr(where, name)
    setattr(where, name, value)


def hurried() -> None:
    """No control: consumers are replaced sooner, and one without a supervisor is patient for a second only."""
    put(workers, "RESTART", Backoff(base_s=0.02, cap_s=0.1))
    put(control_thread, "ORPHAN_S", 1.0)
    put(control_thread, "TICK_S", 0.1)


def no_grace() -> None:
    """Stage 2 comes by a second signal only."""
    put(Pool, "_on_tick", lambda self: None)


def hears_what_was_ignored() -> None:
    """A signal that was ignored at the start is taken all the same."""
    for where in (signals, run):
        put(where, "stop_signals_in_use", lambda: list(STOP_SIGNALS))


def command_outlives() -> None:
    """A dead consumer's command is left alone."""
    put(ConsumerProcess, "clean_up", ConsumerProcess.close_control)


def second_signal_interrupts() -> None:
    """A consumer counts its signals: the second one interrupts what runs."""

    def take(self: SupervisedConsumer) -> None:
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

    put(SupervisedConsumer, "_set_handlers", take)


def end_of_pipe_unheard() -> None:
    """A consumer does not notice that its supervisor is gone."""
    hear = ControlThread._read_stages

    def hear_stages(self: ControlThread, stages: bytes) -> None:
        if stages:
            hear(self, stages)
        else:
            time.sleep(0.1)

    put(ControlThread, "_read_stages", hear_stages)


CONDITIONS = (hurried,)
CONTROLS = (no_grace, hears_what_was_ignored, command_outlives, second_signal_interrupts, end_of_pipe_unheard)


def apply() -> None:
    for change in (*CONDITIONS, *CONTROLS):
        if change.__name__ in os.environ[VARIABLE].split(","):
            change()
