"""Reads `[tool.sequencer]` of pyproject.toml, or sequencer.toml, strictly.

Each table is converted alone, so that a fault has its place. Times are texts with a unit. A secret comes
from a variable: `env:NAME`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ...errors import ConfigurationError
from ...net.endpoint import Endpoint
from ...outbox.drivers import connector
from ...settings.option import declared, fields_of, read_table, taken_by
from ...settings.options import OutboxOptions, PoolOptions, QueueOptions, RunOptions, queue_options
from ...settings.policy import Policy
from ...settings.tables import SECRET, located, table_of, value_of, variables_in
from ...values.checks import check_name
from ..alerts.settings import read_alerts
from ..alerts.targets import read_target
from ..logs import LogOptions
from ..worker.config import WorkerConfig
from .plan import PoolPlan, RunPlan

OWN_FILE, PROJECT_FILE = "sequencer.toml", "pyproject.toml"
TABLES = ("queues", "targets", "alerts")
"""Keys of the file beside its options."""
OF_QUEUE = taken_by("run", QueueOptions, Policy, WorkerConfig, PoolOptions)
"""Options in `[queues.NAME]`."""


def find_file(given: str | None, directory: Path) -> Path:
    """The file that is meant: the one given, else sequencer.toml or a pyproject.toml with queues, upwards from here.

    Raises ConfigurationError.
    """
    if given is not None:
        return Path(given)
    for place in (directory, *directory.parents):
        for name in (OWN_FILE, PROJECT_FILE):
            if (path := place / name).is_file():
                return path
    raise ConfigurationError("run_file_missing", directory=str(directory))


def read_file(
    path: Path, *, redis: str | None = None, namespace: str | None = None, log: LogOptions | None = None
) -> RunPlan:
    """The plan of a file. `redis` and `namespace` go before the file's. Raises ConfigurationError."""
    with located(str(path)):
        return _plan(path.resolve(), _table(path), redis, namespace, log or LogOptions())


def _table(path: Path) -> dict[str, Any]:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError("toml_invalid", error=str(error)) from error
    if path.name == PROJECT_FILE:
        own = table_of("tool.sequencer", table_of("tool", table.get("tool")).get("sequencer"))
        return {name: value for name, value in own.items() if name != "app"}  # that is for `consume`
    if "tool" in table:
        raise ConfigurationError("tool_table_misplaced")
    return table


def _plan(path: Path, table: dict[str, Any], redis: str | None, namespace: str | None, log: LogOptions) -> RunPlan:
    options = RunOptions(**fields_of(RunOptions, read_table(table, declared(RunOptions), beside=TABLES)))
    options = replace(options, redis=_server(options.redis, redis), namespace=namespace or options.namespace)
    queues = table_of("queues", table.get("queues"))
    queues = {name: table_of(f"queues.{name}", queue) for name, queue in queues.items()}
    if not queues:
        raise ConfigurationError("queues_missing")
    found = []
    for name, queue in queues.items():
        with located(f"queues.{name}"):
            found.append(_pool(check_name("queue", name), queue, path.parent, options, log))
    tables, hidden = table_of("targets", table.get("targets")), variables_in(table)
    targets = {name: read_target(name, one, directory=path.parent, hidden=hidden) for name, one in tables.items()}
    own = {name: table_of(f"queues.{name}.alerts", queue.get("alerts")) for name, queue in queues.items()}
    general = table_of("alerts", table["alerts"]) if "alerts" in table else None
    alerts = read_alerts(general, own, targets)
    pools = tuple(replace(pool, env=_env_of(pool, table), alerts=alerts.get(pool.queue)) for pool in found)
    if (needed := sum(max(pool.n, 1) for pool in pools)) > options.max_processes:
        raise ConfigurationError("max_processes_too_low", most=options.max_processes, needed=needed)
    return RunPlan(path=path, pools=pools, targets=tuple(targets.values()), **asdict(options))


def _pool(name: str, table: Mapping[str, Any], directory: Path, options: RunOptions, log: LogOptions) -> PoolPlan:
    given = read_table(table, OF_QUEUE, beside=("alerts", "outbox"))
    if not ("app" in given or "exec" in given):
        raise ConfigurationError("handler_missing")
    if "hang_after" in given and "max_age" not in given:
        raise ConfigurationError("option_needed", name="hang_after", needed="max_age")
    settings: Any = {key: value for key, value in given.items() if key in declared(QueueOptions, Policy)}
    queue_options(name, options.namespace, settings)  # what a consumer would refuse is refused here
    config = WorkerConfig(
        queue=name,
        url=options.redis,
        namespace=options.namespace,
        settings=settings,
        log_level=log.level,
        log_format=log.format,
        is_pooled=True,
        **fields_of(WorkerConfig, given),
    )
    cwd = (directory / Path(given.get("cwd", ".")).expanduser()).resolve()
    if not cwd.is_dir():
        raise ConfigurationError("directory_missing", value=given.get("cwd"), path=str(cwd))
    env = {key: _variable(key, value) for key, value in given.get("env", {}).items()}
    kept = {**fields_of(PoolOptions, given), "cwd": str(cwd), "env": env}
    with located("outbox"):
        outbox = _outbox(table_of("outbox", table["outbox"])) if "outbox" in table else None
    return PoolPlan(config=config, check_every_s=options.check_every_s, outbox=outbox, **kept)


def _outbox(table: Mapping[str, Any]) -> OutboxOptions:
    given = fields_of(OutboxOptions, read_table(table, declared(OutboxOptions)))
    if "db" not in given:
        raise ConfigurationError("database_missing")
    url = value_of("db", given["db"])
    if urlsplit(given["db"]).password:
        raise ConfigurationError("secret_in_file", name="db")
    connector(url)
    return OutboxOptions(**{**given, "db": url})


def _variable(name: str, text: str) -> str:
    if not name or "=" in name or "\0" in name + text:
        raise ConfigurationError("env_invalid", name=name)
    return value_of(f"env.{name}", text)


def _env_of(pool: PoolPlan, table: Mapping[str, Any]) -> Mapping[str, str | None]:
    """Without the variables that hold the URLs and secrets of targets. A command gets the URL of the server where it is
    asked for; so not the variable, either, that holds it.
    """
    hidden = variables_in([table.get("targets"), table.get("redis") if pool.config.exec else None])
    return {**dict.fromkeys(hidden), **(pool.env or {})}


def _server(text: str | None, given: str | None) -> str | None:
    """Which one is meant. What the file says is read also where another one was given, but for a variable."""
    if text is None or (given and text.startswith(SECRET)):
        return given
    url = value_of("redis", text)
    if not url:
        raise ConfigurationError("variable_blank", name="redis", variable=text.removeprefix(SECRET))
    with located("redis"):
        Endpoint.from_url(url)
    parts = urlsplit(url)
    if not text.startswith(SECRET) and (parts.password or "password=" in parts.query):
        raise ConfigurationError("secret_in_file", name="redis")
    return given or url
