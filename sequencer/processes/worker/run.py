"""One consumer process, as the supervisor starts it: `python -m sequencer.processes.worker.run`.

Standard input is the control pipe: one JSON line (WorkerConfig), then a digit for each stage of a stop; its end means
that the supervisor is gone (control_thread.py). A signal to stop means stage 1, from any sender and however often: only
the supervisor's stage 2 interrupts a handler. Reports go to the pipe `report_fd`, a JSON line each. Exit status: see
the constants.
"""

from __future__ import annotations

import faulthandler
import gc
import io
import json
import math
import os
import random
import select
import signal
import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace
from types import FrameType
from typing import Any

from ...client import Sequencer
from ...consume import interruption
from ...consume.emitter import EventEmitter
from ...consume.forks import take_signal
from ...consume.stop import Stop
from ...drain.steps.functions import Handler
from ...errors import CommandNotFound, ConfigurationError, ServerError, ServerUnavailable, StopConsuming
from ...settings.backoff import RECONNECT
from ...texts.commands import name_server
from ...texts.events import Event, event
from ...values.message import ConsumeSummary, Message
from .. import logs
from ..handlers.exec import REDIS_VARIABLE
from ..handlers.printing import OutputClosed, OutputFailed
from ..signals import STOP_SIGNALS, stop_signals_in_use
from .config import WorkerConfig, prepare
from .control_thread import ControlThread, SlowHandlerMonitor
from .in_progress import mapped

DRAINED, CRASHED, WRONG_USE, SERVER, RECYCLED, STOPPED, OUTPUT_CLOSED, OUTPUT_FAILED = 0, 1, 2, 3, 64, 65, 66, 67
"""How a consumer says that it ended."""
GAVE_UP = 1
EXIT_BY_ENDING = {OUTPUT_CLOSED: 0, OUTPUT_FAILED: GAVE_UP, WRONG_USE: WRONG_USE, SERVER: SERVER}
"""Exit statuses of one consumer that no other could better, and what the supervisor then returns."""
PLANNED = (DRAINED, RECYCLED, STOPPED, OUTPUT_CLOSED)
LOG_S = 1.0
"""How long a line of the log is waited for, where standard error takes nothing."""
REPORT_S = 1.0
"""How long to wait for room in the pipe of reports, where its supervisor stands still; at the end, until it goes on."""


class SupervisedConsumer:
    def __init__(self, config: WorkerConfig, control_fd: int) -> None:
        self._config, self._stop, self.queue = config, Stop(), config.queue
        self._control = ControlThread(config.queue, control_fd, self._stop, self.report, config.grace_s, self._end)
        self._memory = mapped(config.hand_fd)
        self._end_reason: StopConsuming | None = None

    def report(self, event: dict[str, Any]) -> None:
        """Unless the supervisor takes nothing. What comes again does not wait for room."""
        self._send(event, 0.0 if event["event"] == "state" else REPORT_S)

    def _send(self, event: dict[str, Any], patience_s: float) -> None:
        """Lines are shorter than PIPE_BUF, so those of several consumers never mix."""
        fd = self._config.report_fd
        assert fd is not None
        line, until = report_line(event), time.monotonic() + patience_s
        with suppress(OSError):  # the supervisor is gone: the end of the control pipe says so too
            while True:
                with suppress(BlockingIOError):
                    os.write(fd, line)
                    return
                if (left_s := until - time.monotonic()) <= 0:
                    return
                select.select([], [fd], [], min(left_s, REPORT_S))

    def forward(self, event: Event) -> bool:
        """Give the supervisor what concerns all consumers: it emits that once."""
        if is_of_all := event.name in ("server lost", "server back", "lease expired"):
            self.report({"event": event.name, **event.fields})
        return is_of_all

    def enable_signals(self) -> None:
        """Until now they were blocked by who started us."""
        self._set_handlers()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
        self._control.start()

    def _set_handlers(self) -> None:
        for number in stop_signals_in_use():
            take_signal(number, lambda *_: self._control.begin_stop())
        if self._config.is_pooled:
            take_signal(signal.SIGHUP, signal.SIG_IGN)  # a reload is the master's: it may reach all of its group
        interruption.hear(self._interrupt)

    def _interrupt(self, _frame: FrameType | None) -> None:
        control = self._control
        if self._stop.stage < 2 or control.consumer is None or control.ended or control.is_interrupted:
            return  # anybody may send this signal
        try:
            control.consumer.interrupt()
        except StopConsuming:  # else the signal comes again: a handler may be about to begin
            control.is_interrupted = True
            raise

    def run(self) -> int:
        config = self._config
        sequencer, handler = prepare(config, self._stop, self.report)
        faulthandler.cancel_dump_traceback_later()
        self.report({"event": "loaded"})
        if not interruption.is_ours():
            raise ConfigurationError("signal_taken", app=config.app, signal=interruption.SIGNAL.name)
        self._set_handlers()  # the app may have taken some, also where Python does not see it (faulthandler)
        with sequencer:
            self._wait_for_server(sequencer)
            gc.collect()
            gc.freeze()  # what was imported stays: looking through all of it again would halt the handlers for ms
            # A command is ended by its own handler, which knows its process.
            options = replace(config, handler_timeout_s=None) if config.exec else config
            consumer = sequencer.consumer(handler if config.app else self._noting_end(handler), options)
            consumer.on_first = lambda: self.report({"event": "began"})
            consumer.emitter.forward = self.forward
            consumer.memory = self._memory
            consumer.on_stuck(lambda _message: self.report({"event": "stuck"}))
            self._control.tick_hooks += [consumer.emitter.tick, SlowHandlerMonitor(consumer, self._stop).on_tick]
            is_limited = consumer.is_limited or config.handler_timeout_s is not None
            self.report({"event": "started", "owner": consumer.owner, "is_limited": is_limited})
            self._control.consumer = consumer
            if self._stop.stage:
                consumer.stop()
            return self._status_of(consumer.run())

    def _noting_end(self, work: Any) -> Handler:
        def handle(message: Message) -> Any:
            try:
                return work(message)
            except (OutputClosed, OutputFailed, CommandNotFound) as error:
                self._end_reason = error
                raise

        return handle

    def _wait_for_server(self, sequencer: Sequencer) -> None:
        """The supervisor reached it once, so that it is away, not wrong."""
        failures = 0
        while True:
            try:
                sequencer.connect()
                return  # the report "started" says that it is back
            except ServerUnavailable as error:
                failures += 1
                self.report({"event": "server lost", "error": str(error)[:1000], "code": error.code})
                time.sleep(RECONNECT.delay_s(failures, random.random()))

    def _status_of(self, summary: ConsumeSummary) -> int:
        if isinstance(self._end_reason, OutputClosed):
            return OUTPUT_CLOSED
        if self._end_reason is not None:
            emit_failed(self.queue, self._end_reason)
            return OUTPUT_FAILED if isinstance(self._end_reason, OutputFailed) else WRONG_USE
        return {"drained": DRAINED, "recycled": RECYCLED, "stopped": STOPPED}[summary.reason]

    def _end(self) -> None:
        """At once, from a signal handler or the control thread: nothing is held yet."""
        self.report({"event": "exit", "status": STOPPED, "threads": []})
        os._exit(STOPPED)

    def report_end(self, status: int) -> int:
        """With what may keep this process from exiting."""
        self._control.ended = time.monotonic(), status
        threads = [t.name[:50] for t in threading.enumerate() if not t.daemon and t is not threading.main_thread()]
        if state := self._control.state:
            self._send({"event": "state", **state}, math.inf)
        self._send({"event": "exit", "status": status, "threads": threads[:20]}, math.inf)
        return status


def report_line(event: dict[str, Any]) -> bytes:
    """The line for an event: what makes it longer than a pipe takes in one piece is cut."""
    for length in (select.PIPE_BUF, 200, 5):
        cut = {name: value[:length] if isinstance(value, str | list) else value for name, value in event.items()}
        line = json.dumps({"pid": os.getpid(), **cut}).encode() + b"\n"
        if len(line) <= select.PIPE_BUF:
            break
    return line


def main() -> int:
    del sys.argv[1:]  # the queue, for `ps`: an app that reads its arguments at the import must not meet it
    control = os.dup(0)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    with open(control, "rb", buffering=0, closefd=False) as pipe:
        line = pipe.readline()  # what follows it stays in the pipe
    if not line.endswith(b"\n"):  # the supervisor is gone
        return WRONG_USE
    config = WorkerConfig(**json.loads(line))
    if config.app and config.redis_variable is not None:
        os.environ[REDIS_VARIABLE] = config.redis_variable  # not in what it was started with: `ps e` shows that
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # what a handler prints is seen at once, not when it ends
    # The supervisor ends a start that takes too long. Where it is gone, and code in C keeps the interpreter's lock, so
    # that no thread of ours hears of that, this does; it says where the import hangs.
    faulthandler.dump_traceback_later(config.start_timeout_s + 1.0, exit=True, file=2)
    logs.configure(config.log_level, config.log_format)
    name_server(config.named_server)
    worker = SupervisedConsumer(config, control)
    # Where nobody reads standard error, neither a stop nor the supervisor's end would be heard, and no lease renewed.
    with logs.background_writing(LOG_S):
        status = work(worker)
    return worker.report_end(status)


def work(worker: SupervisedConsumer) -> int:
    try:
        worker.enable_signals()
        return worker.run()
    except StopConsuming:
        return STOPPED
    except Exception as error:
        emit_failed(worker.queue, error)
        if isinstance(error, ConfigurationError):
            return WRONG_USE
        return SERVER if isinstance(error, ServerError) else CRASHED


def emit_failed(queue: str, error: BaseException) -> None:
    EventEmitter(queue).emit(event("consumer failed", queue, error=error))


if __name__ == "__main__":
    sys.exit(main())
