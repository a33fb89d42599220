"""What one consumer process is to do, and the queue and handler that follow from it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from ...client import Sequencer
from ...consume.stopping import Report, Stop, ignore
from ...drain.effects import Handler
from ...errors import ConfigurationError
from ...settings.options import AUDIT_LENGTH, OnFailure, QueueOptions
from .. import logs
from ..handlers.apps import load_app
from ..handlers.exec import exec_handler
from ..handlers.printing import Printer


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
    grace: float | None = None
    """Seconds from stage 1 of a stop to stage 2."""
    log_level: str = "WARNING"
    log_format: logs.Format = "text"
    lock_fd: int | None = None
    report_fd: int | None = None

    def on(self, url: str | None) -> WorkerConfig:
        """The same for the server at `url`; None leaves it to the app or to SEQUENCER_REDIS."""
        return replace(self, url=url)

    def line(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"


def prepare(
    config: WorkerConfig, stop: Stop | None = None, report: Report = ignore
) -> tuple[Sequencer, Handler | Printer]:
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
        return sequencer, exec_handler(config.command, stop=stop, report=report)
    lock_fd = -1 if config.lock_fd is None else config.lock_fd
    return sequencer, Printer(lock_fd, lease_s=config.lease, report=report)


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
