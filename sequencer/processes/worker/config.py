"""What one consumer process is to do, and the queue and handler that follow from it."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from ...client import Sequencer
from ...consume.around import Work
from ...consume.stop import Report, Stop, ignore
from ...errors import ConfigurationError
from ...settings.options import QueueSettings, ServiceOptions
from .. import logs
from ..handlers.apps import load_app
from ..handlers.exec import ExecHandler
from ..handlers.printing import Printer


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerConfig(ServiceOptions):
    """What one consumer process is to do."""

    queue: str
    url: str | None = None
    """The server; None leaves it to the app or to SEQUENCER_REDIS."""
    namespace: str = "sequencer"
    redis_variable: str | None = None
    """SEQUENCER_REDIS as the service has it, for an app: a consumer does not get it by its environment."""
    named_server: str = ""
    """Which server the lines for a shell in its log name: what the call of the service named by --redis."""
    settings: QueueSettings = field(default_factory=QueueSettings)
    """Options of the queue, as a Sequencer takes them; of an app that is a Sequencer they go before its own."""
    is_pooled: bool = False
    log_level: str = "WARNING"
    log_format: logs.Format = "text"
    after_torn: bool = False
    """Whether a consumer before it was killed while it may have been printing."""
    report_fd: int | None = None
    hand_fd: int | None = None
    """Memory in which it says which message it began last."""

    @property
    def handles(self) -> str:
        return f"app {self.app}" if self.app else f"command {self.exec!r}" if self.exec else "printing"

    def given(self) -> dict[str, Any]:
        """What is not as it is by default, as JSON has it."""
        given = ((one, getattr(self, one.name)) for one in fields(self))
        return {one.name: value for one, value in given if value != one.default}


def prepare(
    config: WorkerConfig, stop: Stop | None = None, report: Report = ignore
) -> tuple[Sequencer, Work | Printer]:
    """The queue and the handler of a config. Raises HandlerNotFound, ConfigurationError."""
    sequencer = Sequencer(config.queue, config.url, namespace=config.namespace, **config.settings)
    if config.app:
        app = load_app(config.app)
        if app.sequencer is None:
            return sequencer, app.handler
        _compare(config, app.sequencer)
        app.sequencer.override(config.settings)
        return app.sequencer, app.handler
    if config.exec:
        url = config.url if config.pass_redis else None
        limit_s = config.handler_timeout_s
        return sequencer, ExecHandler(config.exec, stop=stop, report=report, redis_url=url, timeout_s=limit_s)
    return sequencer, Printer(after_torn=config.after_torn)


def _compare(config: WorkerConfig, app: Sequencer) -> None:
    """Refuse what would be asked for and not done: a Sequencer brings its own queue and namespace."""
    own = app.options
    if own.queue != config.queue:
        fields = {"app": config.app, "queue": own.queue, "asked": config.queue, "is_pooled": config.is_pooled}
        raise ConfigurationError("app_other_queue", **fields)
    is_left_out = config.namespace == "sequencer" and not config.is_pooled
    if config.namespace != own.namespace and not is_left_out:
        fields = {"app": config.app, "namespace": own.namespace, "asked": config.namespace}
        raise ConfigurationError("app_other_namespace", **fields, is_pooled=config.is_pooled)
