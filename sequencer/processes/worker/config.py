"""What one consumer process is to do, and the queue and handler that follow from it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ...client import Sequencer
from ...consume.registered import Work
from ...consume.stop import Report, Stop, ignore
from ...errors import ConfigurationError
from ...settings.options import AUDIT_LENGTH, DEFAULTS, FIELD_OF, LEASE_S, ConsumerOptions, QueueOptions, QueueSettings
from ...texts.commands import command
from ...values.checks import seconds_of
from .. import logs
from ..handlers.apps import load_app
from ..handlers.exec import exec_handler, exec_steps
from ..handlers.printing import Printer

START_S = 60.0
"""How long the import of an app may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerConfig:
    """What one consumer process is to do. Without `app`, `command` and `steps` it prints each message."""

    queue: str
    url: str | None = None
    namespace: str = "sequencer"
    app: str | None = None
    command: str | None = None
    steps: Sequence[Sequence[str]] = ()
    """Name and command of each step of a message, in their order."""
    once: Sequence[str] = ()
    """Names of those that never run again by themselves."""
    passes_redis: bool = False
    """Whether the commands are given `url`, in SEQUENCER_REDIS."""
    redis_variable: str | None = None
    """SEQUENCER_REDIS as the service has it, for an app: a consumer does not get it by its environment."""
    named_server: str = ""
    """Which server the lines for a shell in its log name: what the call of the service named by --redis."""
    settings: QueueSettings = field(default_factory=QueueSettings)
    """Options of the queue, as a Sequencer takes them; of an app that is a Sequencer they go before its own."""
    lease: float = LEASE_S
    until_empty: bool = False
    until_idle: bool = False
    max_messages: int | None = None
    max_age: float | None = None
    handler_timeout: float | None = None
    audit: bool = False
    audit_length: int = AUDIT_LENGTH
    grace: float | None = None
    """Seconds from stage 1 of a stop to stage 2."""
    start_timeout: float = START_S
    """Seconds from the start of the process until its app is imported."""
    is_pooled: bool = False
    """Whether it is one of the pools of `run`."""
    log_level: str = "WARNING"
    log_format: logs.Format = "text"
    lock_fd: int | None = None
    report_fd: int | None = None
    hand_fd: int | None = None
    """Memory in which it says which message it began last."""

    @property
    def runs_commands(self) -> bool:
        return bool(self.command or self.steps)

    def on(self, url: str | None) -> WorkerConfig:
        """The same for the server at `url`; None leaves it to the app or to SEQUENCER_REDIS."""
        return replace(self, url=url)

    def options(self) -> ConsumerOptions:
        """How the consumer works, but for what belongs to the queue."""
        seconds_of("start_timeout", self.start_timeout, 0.1, 366 * 86_400)
        return ConsumerOptions(
            lease_s=self.lease,
            until_empty=self.until_empty,
            until_idle=self.until_idle,
            max_messages=self.max_messages,
            max_age_s=self.max_age,
            handler_timeout_s=self.handler_timeout,
            audit=self.audit,
            audit_length=self.audit_length,
        )

    def line(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"


def prepare(
    config: WorkerConfig, stop: Stop | None = None, report: Report = ignore
) -> tuple[Sequencer, Work | Printer]:
    """The queue and the handler of a config. Raises HandlerNotFound, ConfigurationError."""
    sequencer = Sequencer(config.queue, config.url, namespace=config.namespace, **_settings(config))
    if config.app:
        app = load_app(config.app)
        if app.sequencer is None:
            return sequencer, app.handler
        own = app.sequencer.options
        _compare(config, own)
        app.sequencer.options = replace(own, **_overrides(config, sequencer.options, own))
        return app.sequencer, app.handler
    url, limit_s = config.url if config.passes_redis else None, config.handler_timeout
    if config.steps:
        steps = exec_steps(config.steps, config.once, stop=stop, report=report, redis_url=url, timeout_s=limit_s)
        return sequencer, steps
    if config.command:
        return sequencer, exec_handler(config.command, stop=stop, report=report, redis_url=url, timeout_s=limit_s)
    lock_fd = -1 if config.lock_fd is None else config.lock_fd
    return sequencer, Printer(lock_fd, lease_s=config.lease, report=report)


def overrides(config: WorkerConfig) -> list[str]:
    """What the command line asks of an app that has other options, each in words. To be asked before `prepare`."""
    app = load_app(config.app) if config.app else None
    if app is None or app.sequencer is None:
        return []
    own = app.sequencer.options
    asked = _overrides(config, Sequencer(config.queue, config.url, **_settings(config)).options, own)
    names = [name for name in config.settings if asked[FIELD_OF[name]] != getattr(own, FIELD_OF[name])]
    return [f"{name}={_text(asked[FIELD_OF[name]])} (its own: {_text(_own(own, name))})" for name in names]


def _own(own: QueueOptions, name: str) -> Any:
    return own.outage_names if name == "outage" else getattr(own, FIELD_OF[name])


def _settings(config: WorkerConfig) -> QueueSettings:
    cap = max(DEFAULTS["backoff_cap"], config.settings.get("backoff", 0.0))  # so that any backoff fits below it
    settings: QueueSettings = {"backoff_cap": cap, **config.settings}
    return settings


def _overrides(config: WorkerConfig, asked: QueueOptions, own: QueueOptions) -> dict[str, Any]:
    """Fields of an app's options that the command line gives another value."""
    changed = {FIELD_OF[name]: getattr(asked, FIELD_OF[name]) for name in config.settings}
    if own.backoff_cap_s < changed.get("backoff_s", 0.0):
        changed["backoff_cap_s"] = changed["backoff_s"]
    return changed


def _compare(config: WorkerConfig, own: QueueOptions) -> None:
    """Refuse what would be asked for and not done: a Sequencer brings its own queue and namespace."""
    if own.queue != config.queue:
        fix = "run: " + command("consume", own.queue, options=["--app", str(config.app)])
        if config.is_pooled:
            fix = f"its table is [queues.{own.queue}]"
        raise ConfigurationError(f"app {config.app} is for queue {own.queue!r}, not {config.queue!r}; {fix}")
    is_left_out = config.namespace == QueueOptions(queue=config.queue).namespace
    if config.namespace != own.namespace and config.is_pooled:
        raise ConfigurationError(
            f"app {config.app} has namespace={own.namespace!r}, and the file {config.namespace!r}; let them be the same"
        )
    if config.namespace != own.namespace and not is_left_out:
        raise ConfigurationError(
            f"app {config.app} has namespace={own.namespace!r}, and the call {config.namespace!r}; let them be the same"
        )


def _text(value: Any) -> Any:
    """A value as it stands on the command line."""
    return (",".join(value) or "none") if isinstance(value, tuple) else value
