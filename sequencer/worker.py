"""One consumer process, as the supervisor starts it: `python -m sequencer.worker`.

Standard input brings one JSON line (WorkerConfig) and then stays open; its end means that the supervisor is gone,
and the consumer stops as at SIGTERM. Reports go to the pipe `report_fd`, a JSON line each. Exit status: see the
constants.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import random
import signal
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from .backoff import RECONNECT
from .client import Sequencer
from .drain import Handler
from .errors import ConfigurationError, SequencerError, ServerError, ServerUnavailable, StopConsuming
from .handlers import OutputClosed, OutputFailed, exec_handler, load_app, print_handler
from .message import ConsumeSummary, Message
from .options import AUDIT_LENGTH, OnFailure, QueueOptions

log = logging.getLogger("sequencer")

DRAINED, CRASHED, WRONG_USE, SERVER, RECYCLED, STOPPED, OUTPUT_CLOSED, OUTPUT_FAILED = 0, 1, 2, 3, 64, 65, 66, 67


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerConfig:
    """What one consumer process is to do. Without `app` and `command` it prints each message."""

    queue: str
    url: str | None = None
    namespace: str = "sequencer"
    app: str | None = None
    command: str | None = None
    lease: float = 15.0
    until_empty: bool = False
    max_messages: int | None = None
    max_age: float | None = None
    max_attempts: int = 5
    backoff: float = 0.5
    on_failure: OnFailure = "park"
    park_on: Sequence[str] = ()
    dead_letter_on: Sequence[str] = ()
    audit: bool = False
    audit_length: int = AUDIT_LENGTH
    log_level: str = "WARNING"
    lock_fd: int | None = None
    report_fd: int | None = None

    def on(self, url: str | None) -> WorkerConfig:
        """The same for the server at `url`; None leaves it to the app or to SEQUENCER_REDIS."""
        return replace(self, url=url)

    def line(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"


def prepare(config: WorkerConfig) -> tuple[Sequencer, Handler]:
    """The queue and the handler of a config. Raises HandlerNotFound, ConfigurationError."""
    sequencer = Sequencer(
        config.queue,
        config.url,
        namespace=config.namespace,
        max_attempts=config.max_attempts,
        backoff=config.backoff,
        backoff_cap=max(60.0, config.backoff),
        on_failure=config.on_failure,
        park_on=config.park_on,
        dead_letter_on=config.dead_letter_on,
    )
    if config.app:
        app = load_app(config.app)
        if app.sequencer is None:
            return sequencer, app.handler
        _compare(config, app.sequencer.options)
        return app.sequencer, app.handler
    if config.command:
        return sequencer, exec_handler(config.command)
    return sequencer, print_handler(-1 if config.lock_fd is None else config.lock_fd)


def _compare(config: WorkerConfig, options: QueueOptions) -> None:
    """Refuse what would be asked for and not done: a Sequencer brings its own queue and options."""
    if options.queue != config.queue:
        raise ConfigurationError(
            f"app {config.app} is for queue {options.queue!r}, not {config.queue!r}; "
            f"run: sequencer consume {options.queue}"
        )
    usual = WorkerConfig(queue=config.queue)
    for name, wanted, own in (
        ("namespace", config.namespace, options.namespace),
        ("max_attempts", config.max_attempts, options.max_attempts),
        ("backoff", config.backoff, options.backoff_s),
        ("on_failure", config.on_failure, options.on_failure),
        ("park_on", ",".join(config.park_on), ",".join(options.park_on)),
        ("dead_letter_on", ",".join(config.dead_letter_on), ",".join(options.dead_letter_on)),
    ):
        if wanted not in (getattr(usual, name) or "", own):
            option = f"--{name.replace('_', '-')}"
            raise ConfigurationError(f"app {config.app} sets {name}={own!r} itself; leave {option} {wanted} out")


def run(config: WorkerConfig) -> int:
    """Consume until the end; returns the exit status."""
    ending: list[StopConsuming] = []

    def noticing(message: Message) -> None:
        try:
            handler(message)
        except (OutputClosed, OutputFailed) as error:
            ending.append(error)
            raise

    try:
        sequencer, handler = prepare(config)
        with sequencer:
            wait_for_server(sequencer)
            gc.collect()
            gc.freeze()  # what was imported stays: looking through all of it again would halt the handlers for ms
            summary = sequencer.consume(
                handler if config.app or config.command else noticing,
                lease=config.lease,
                until_empty=config.until_empty,
                max_messages=config.max_messages,
                max_age=config.max_age,
                audit=config.audit,
                audit_length=config.audit_length,
                on_start=lambda consumer: report(config, {"event": "started", "owner": consumer.owner}),
            )
    except (ServerError, ConfigurationError) as error:
        print(f"consumer {os.getpid()}: {error}", file=sys.stderr, flush=True)
        return SERVER if isinstance(error, ServerError) else WRONG_USE
    report(config, {"event": "ended", **asdict(summary)})
    if ending and isinstance(ending[0], OutputFailed):
        print(f"consumer {os.getpid()}: {ending[0]}", file=sys.stderr, flush=True)
        return OUTPUT_FAILED
    return OUTPUT_CLOSED if ending else status_of(summary)


def wait_for_server(sequencer: Sequencer) -> None:
    """Wait until the server is there: the supervisor reached it once, so that it is away, not wrong.

    SIGTERM ends the wait: nothing is held yet, so its default action will do.
    """
    failures = 0
    while True:
        try:
            return sequencer.connect()
        except ServerUnavailable as error:
            failures += 1
            log.warning("consumer %d: %s", os.getpid(), error)
            time.sleep(RECONNECT.delay_s(failures, random.random()))


def status_of(summary: ConsumeSummary) -> int:
    return {"drained": DRAINED, "recycled": RECYCLED, "stopped": STOPPED}[summary.reason]


def report(config: WorkerConfig, event: dict[str, Any]) -> None:
    """Tell the supervisor; lines are shorter than PIPE_BUF, so those of several consumers never mix."""
    if config.report_fd is not None:
        try:
            os.write(config.report_fd, json.dumps({"pid": os.getpid(), **event}).encode() + b"\n")
        except OSError:
            return  # the supervisor is gone: the end of standard input says so too


def watch_supervisor(fd: int) -> None:
    """Stop, as at SIGTERM, when the supervisor's end of the pipe is closed."""

    def watch() -> None:
        while os.read(fd, 4096):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="sequencer-watch", daemon=True).start()


def main() -> int:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # outside of consuming it just ends us
    control = os.dup(0)
    with os.fdopen(os.open(os.devnull, os.O_RDONLY), "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    line = b""
    while not line.endswith(b"\n"):
        piece = os.read(control, 65536)
        if not piece:
            return WRONG_USE
        line += piece
    config = WorkerConfig(**json.loads(line))
    logging.basicConfig(level=config.log_level, format="%(asctime)s %(levelname)s %(name)s[%(process)d] %(message)s")
    logging.getLogger("sequencer.signals").setLevel(logging.ERROR)  # the supervisor says it, once for all
    watch_supervisor(control)
    try:
        status = run(config)
    except SequencerError as error:
        print(f"consumer {os.getpid()}: {error}", file=sys.stderr, flush=True)
        status = CRASHED
    except Exception:
        traceback.print_exc()
        status = CRASHED
    report(config, {"event": "exit", "status": status})
    return status


if __name__ == "__main__":
    sys.exit(main())
