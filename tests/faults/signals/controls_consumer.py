"""Changes of the consumer process: how it hears signals and its supervisor, prints, and runs commands."""

from __future__ import annotations

import signal
import time
from typing import Any

from sequencer.calls import settle
from sequencer.consume import interruption
from sequencer.drain import held, protocol
from sequencer.drain.batch import BatchSize
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


def hears_what_was_ignored() -> None:
    """A signal that was ignored at the start is taken all the same."""
    put(run, "stop_signals_in_use", lambda: list(STOP_SIGNALS))


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


def end_of_pipe_unheard() -> None:
    """A consumer does not notice that its supervisor is gone."""
    hear = ControlThread._read_stages

    def hear_stages(self: ControlThread, stages: bytes) -> None:
        if stages:
            hear(self, stages)
        else:
            time.sleep(0.1)

    put(ControlThread, "_read_stages", hear_stages)


def blames_nobody() -> None:
    """The last renewal of a stuck handler's lease is one like any other."""
    put(held, "renew", lambda *given, **more: settle.renew(*given, **{**more, "alone": False}))


CHANGES = by_name(
    hurried,
    claims_many,
    hears_what_was_ignored,
    second_signal_interrupts,
    end_of_pipe_unheard,
    blames_nobody,
)
