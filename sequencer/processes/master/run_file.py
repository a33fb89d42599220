"""Reads `[tool.sequencer]` of pyproject.toml, or sequencer.toml, strictly: what is wrong is one sentence.

Each table is converted alone, so that a fault can be told with its queue. Times are texts with a unit. A secret comes
from a variable: `env:NAME`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from ...errors import ConfigurationError, SequencerError, shown
from ...net.endpoint import Endpoint
from ...settings.options import AUDIT_LENGTH, DEFAULTS, QueueSettings, queue_options
from ...settings.tables import SECRET, converted, value_of, variables_in
from ...texts.words import error_text, type_name
from ...values.checks import check_name, seconds_of
from ..alerts.settings import read_alerts, read_targets
from ..logs import LogOptions
from ..worker.config import START_S, WorkerConfig
from .plan import PoolPlan, RunPlan

OWN_FILE, PROJECT_FILE = "sequencer.toml", "pyproject.toml"
_HINTS = {"Invalid value": "a text stands in quotes", "Cannot overwrite a value": "it stands there twice"}
MAX_PROCESSES = 1024
MAX_SHOWN = 200
"""Characters of a path that an error shows."""


class QueueTable(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, frozen=True):
    """`[tool.sequencer.queues.NAME]`; what a word means is in cli/README.md."""

    app: str | None = None
    exec: str | None = None
    pass_redis: bool = False
    n: int = 1
    max: int | None = None
    wait: float | str = "1s"
    lease: float | str = "15s"
    grace: float | str | None = None
    start_timeout: float | str = START_S
    max_age: float | str | None = None
    hang_after: float | str | None = None
    max_messages: int | None = None
    handler_timeout: float | str | None = None
    max_attempts: int | None = None
    backoff: float | str | None = None
    on_failure: str | None = None
    park_on: list[str] | None = None
    dead_letter_on: list[str] | None = None
    outage: list[str] | None = None
    audit: bool = False
    audit_length: int = AUDIT_LENGTH
    check: str | None = None
    alerts: dict[str, Any] = {}
    env: dict[str, str] = {}
    cwd: str = "."


class TopTable(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, frozen=True):
    """`[tool.sequencer]`, but for what is in the tables below it."""

    app: str | None = None
    """For `consume`: not read here."""
    redis: str | None = None
    namespace: str = "sequencer"
    environment: str = ""
    check_every: float | str = "2s"
    run_for: float | str = "0"
    max_processes: int = 64
    alerts: dict[str, Any] | None = None
    targets: dict[str, Any] = {}
    queues: dict[str, Any] = {}


def find_file(given: str | None, directory: Path) -> Path:
    """The file that is meant: the one given, else sequencer.toml or a pyproject.toml with queues, upwards from here.

    Raises ConfigurationError.
    """
    if given is not None:
        return Path(given)
    for place in (directory, *directory.parents):
        if (path := place / OWN_FILE).is_file():
            return path
        if (path := place / PROJECT_FILE).is_file():
            return path
    raise ConfigurationError(
        f"there is no {OWN_FILE} or {PROJECT_FILE} in {directory} or above it; write one, or name it: "
        "sequencer run FILE"
    )


def read_file(
    path: Path,
    *,
    redis: str | None = None,
    namespace: str | None = None,
    log: LogOptions | None = None,
) -> RunPlan:
    """The plan of a file. `redis` and `namespace` go before the file's. Raises ConfigurationError, in one sentence."""
    try:
        return _plan(path.resolve(), _table(path), redis, namespace, log or LogOptions())
    except Exception as error:  # whatever a parser or the system raises at odd values
        raise ConfigurationError(f"{_cut(str(path))}: {_why(error)}") from error


def _why(error: Exception) -> str:
    if isinstance(error, SequencerError):
        return str(error)
    what = error.strerror if isinstance(error, OSError) else None
    return f"it can't be read: {what or f'{type_name(error)}: {error_text(error)}'}"


def _cut(path: str) -> str:
    return path if len(path) <= MAX_SHOWN else f"{path[:MAX_SHOWN]}..."


def _table(path: Path) -> dict[str, Any]:
    try:
        table: Any = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        hints = [hint for said, hint in _HINTS.items() if said in str(error)]
        raise ConfigurationError("; ".join([f"it is no TOML: {error}", *hints])) from error
    if path.name == PROJECT_FILE:
        tool = table.get("tool")
        table = tool.get("sequencer") if isinstance(tool, dict) else None
        if not isinstance(table, dict) or not table.get("queues"):
            raise ConfigurationError("it has no [tool.sequencer.queues.NAME], which says what to run for a queue")
    elif "tool" in table:
        raise ConfigurationError(f"tables begin with tool.sequencer in {PROJECT_FILE} alone; here it is [queues.NAME]")
    return dict(table)


def _plan(path: Path, table: dict[str, Any], redis: str | None, namespace: str | None, log: LogOptions) -> RunPlan:
    top = converted(table, TopTable, unnamed=["app"])
    if not top.queues:
        raise ConfigurationError("it has no [queues.NAME], which says what to run for a queue")
    url, every_s = _server(top.redis, redis), seconds_of("check_every", top.check_every, 0.1)
    space = check_name("namespace", namespace or top.namespace)
    found = [_pool(name, table, path.parent, url, space, log) for name, table in top.queues.items()]
    targets = read_targets(top.targets, path.parent, variables_in(table))
    own = {name: queue.get("alerts", {}) for name, queue in top.queues.items()}
    alerts = read_alerts(top.alerts, own, targets)
    pools = tuple(
        replace(pool, check_every_s=every_s, env=_env_of(pool, top), alerts=alerts.get(pool.queue)) for pool in found
    )
    _check_count("max_processes", top.max_processes, 1)
    if (needed := sum(max(pool.n, 1) for pool in pools)) > top.max_processes:
        raise ConfigurationError(
            f"max_processes={top.max_processes} is too low: the queues need {needed} together, by their n, and one "
            "with n=0 needs 1; raise it, or lower an n"
        )
    return RunPlan(
        path=path,
        url=url,
        namespace=space,
        environment=top.environment,
        check_every_s=every_s,
        run_for_s=seconds_of("run_for", top.run_for),
        max_processes=top.max_processes,
        pools=pools,
        targets=tuple(targets.values()),
    )


def _pool(name: str, table: Any, directory: Path, url: str | None, namespace: str, log: LogOptions) -> PoolPlan:
    try:
        check_name("queue", name)
        if not isinstance(table, dict):
            raise ConfigurationError(f"it must be a table, got {shown(table)}")
        return _checked(name, converted(table, QueueTable), directory, url, namespace, log)
    except Exception as error:
        raise ConfigurationError(f"queues.{name}: {_why(error)}") from error


def _checked(
    name: str, table: QueueTable, directory: Path, url: str | None, namespace: str, log: LogOptions
) -> PoolPlan:
    if bool(table.app) == bool(table.exec):
        raise ConfigurationError('give app = "module:attribute" or exec = "a command", one of the two')
    if table.pass_redis and not table.exec:
        raise ConfigurationError("pass_redis says what the commands of exec are given; leave it out")
    _check_count("n", table.n, 0)
    most = max(table.n, 1) if table.max is None else table.max
    if table.max is not None:
        _check_count("max", most, max(table.n, 1))
    if table.hang_after is not None and table.max_age is None:
        raise ConfigurationError("hang_after is counted from max_age; give that too")
    config = WorkerConfig(
        queue=name,
        url=url,
        namespace=namespace,
        app=table.app,
        command=table.exec,
        passes_redis=table.pass_redis,
        settings=_settings(name, namespace, table),
        lease=seconds_of("lease", table.lease),
        max_messages=table.max_messages,
        max_age=_seconds(table, "max_age"),
        handler_timeout=_seconds(table, "handler_timeout"),
        audit=table.audit,
        audit_length=table.audit_length,
        grace=_seconds(table, "grace"),
        start_timeout=seconds_of("start_timeout", table.start_timeout),
        log_level=log.level,
        log_format=log.format,
        is_pooled=True,
    )
    config.options()  # what a consumer would refuse is refused here
    cwd = (directory / Path(table.cwd).expanduser()).resolve()
    if not cwd.is_dir():
        raise ConfigurationError(f"cwd={shown(table.cwd)} is no directory: {cwd}")
    return PoolPlan(
        config=config,
        n=table.n,
        most=most,
        wait_s=seconds_of("wait", table.wait, 0.001),
        hang_after_s=_seconds(table, "hang_after", 0.1),
        cwd=cwd,
        env={key: _variable(key, value) for key, value in table.env.items()},
        check=table.check,
    )


def _seconds(table: QueueTable, name: str, low: float = 0.0) -> float | None:
    """A duration of the table that need not be given."""
    value = getattr(table, name)
    return None if value is None else seconds_of(name, value, low)


def _variable(name: str, text: str) -> str:
    if not name or "=" in name or "\0" in name:
        raise ConfigurationError(f"env: {shown(name)} is no name of a variable")
    if "\0" in text:
        raise ConfigurationError(f"env: the value of {shown(name)} has a NUL, which no variable can have")
    return value_of(f"env.{name}", text)


def _env_of(pool: PoolPlan, top: TopTable) -> Mapping[str, str | None]:
    """Without the variables that hold the URLs and secrets of targets. A command gets the URL of the server where it is
    asked for; so not the variable, either, that holds it.
    """
    hidden = variables_in([top.targets, top.redis if pool.config.command else None])
    return {**dict.fromkeys(hidden), **pool.env}


def _settings(name: str, namespace: str, table: QueueTable) -> QueueSettings:
    given: dict[str, Any] = {
        "max_attempts": table.max_attempts,
        "backoff": _seconds(table, "backoff"),
        "on_failure": table.on_failure,
        **{key: _names(getattr(table, key)) for key in ("park_on", "dead_letter_on", "outage")},
    }
    settings: Any = {key: value for key, value in given.items() if value is not None}
    queue_options(
        name, namespace, {"backoff_cap": max(DEFAULTS["backoff_cap"], settings.get("backoff", 0.0)), **settings}
    )
    return settings  # type: ignore[no-any-return]


def _names(names: list[str] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(names)


def _check_count(name: str, value: int, low: int) -> None:
    if not low <= value <= MAX_PROCESSES:
        raise ConfigurationError(f"{name}={value} must be a whole number from {low} to {MAX_PROCESSES}")


def _server(text: str | None, given: str | None) -> str | None:
    """Which one is meant. What the file says is read also where another one was given, but for a variable."""
    if text is None or (given and text.startswith(SECRET)):
        return given
    url = value_of("redis", text)
    if not url:
        raise ConfigurationError("redis is empty; name a server, or leave it out")
    try:
        Endpoint.from_url(url)
    except SequencerError as error:
        raise ConfigurationError(f"redis: {error}") from error
    if not text.startswith(SECRET) and urlsplit(url).password:
        raise ConfigurationError(f'redis has a password in it; put it into a variable, and write "{SECRET}NAME"')
    return given or url
