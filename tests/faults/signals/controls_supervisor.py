"""Changes of the supervisor, of the command's start, and of what the supervisor starts consumers with."""

from __future__ import annotations

from sequencer.processes import signals, workers
from sequencer.processes.consumer_process import ConsumerProcess
from sequencer.processes.pool import Pool
from sequencer.processes.signals import STOP_SIGNALS
from sequencer.settings.backoff import Backoff

from .controls import by_name, put


def hurried() -> None:
    """No control: consumers are replaced sooner, for cases with many deaths."""
    put(workers, "RESTART", Backoff(base_s=0.02, cap_s=0.1))


def no_grace() -> None:
    """Stage 2 comes by a second signal only."""
    put(Pool, "_on_tick", lambda self: None)


def hears_what_was_ignored() -> None:
    """A signal that was ignored at the start is taken all the same."""
    put(signals, "stop_signals_in_use", lambda: STOP_SIGNALS)


def command_outlives() -> None:
    """A dead consumer's command is left alone."""
    put(ConsumerProcess, "clean_up", ConsumerProcess.close_control)


CHANGES = by_name(hurried, no_grace, hears_what_was_ignored, command_outlives)
