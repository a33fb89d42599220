"""What a file says of alerts: its targets, and the tables `alerts` of all queues and of one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import msgspec

from ...errors import ConfigurationError, SequencerError
from ...settings.tables import converted
from ...settings.thresholds import Thresholds
from ...values.checks import nearest, seconds_of
from .targets.table import Target, read_target

REPEAT_S = 4 * 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueAlerts:
    """What is told of one queue, and to whom. Times in seconds."""

    limits: Thresholds = field(default_factory=Thresholds)
    to: tuple[str, ...] = ()
    """Names of targets."""
    repeat_s: float = REPEAT_S
    """What still holds is told again after this time; 0: it is not."""
    texts: bool = True
    """Whether the texts of errors are told, or their types alone."""


class AlertsTable(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, frozen=True):
    """`[tool.sequencer.alerts]`, and `[tool.sequencer.queues.NAME.alerts]`; what a word means is in cli/README.md."""

    parked: int | None = None
    dead: int | None = None
    backlog: int | None = None
    wait: float | str | None = None
    lag: float | str | None = None
    no_consumers: float | str | None = None
    failing: float | None = None
    memory: float | None = None
    away: float | str | None = None
    outage: bool | None = None
    pool: bool | None = None
    history: bool | None = None
    repeat: float | str | None = None
    texts: bool | None = None
    to: list[str] | None = None


def read_targets(tables: Mapping[str, Any], directory: Path, variables: Collection[str]) -> dict[str, Target]:
    """The targets of a file; `variables`: those that the file names, which a command is not given.

    Raises ConfigurationError.
    """
    return {name: read_target(name, table, directory=directory, hidden=variables) for name, table in tables.items()}


def read_alerts(
    general: Mapping[str, Any] | None, own: Mapping[str, Mapping[str, Any]], targets: Mapping[str, Target]
) -> dict[str, QueueAlerts]:
    """What is told of each queue: by its own table, else by the general one. Nothing where the file has neither, and
    no target. Raises ConfigurationError.
    """
    if general is None and not targets and not any(own.values()):
        return {}
    found, worker = dict[str, QueueAlerts](), "alerts"
    try:
        whole = _alerts(general or {}, targets, QueueAlerts(to=tuple(targets)))
        for queue, table in own.items():
            worker = f"queues.{queue}.alerts"
            found[queue] = _alerts(table, targets, whole)
    except SequencerError as error:
        raise ConfigurationError(f"{worker}: {error}") from error
    named = {name for one in found.values() for name in one.to}
    if named and (unused := [name for name in targets if name not in named]):
        raise ConfigurationError(
            f"targets.{unused[0]}: nothing is sent to it; name it in `to` of [alerts], or leave it out"
        )
    return found


def _alerts(table: Mapping[str, Any], targets: Mapping[str, object], before: QueueAlerts) -> QueueAlerts:
    """What a table says, where it says something; else as before."""
    found = converted(table, AlertsTable)
    given: dict[str, Any] = {}
    for one in fields(Thresholds):
        value = getattr(found, one.name)
        if value is not None:
            given[one.name] = seconds_of(one.name, value) if isinstance(value, str) else value
            _check_limit(one.name, given[one.name])
    repeat_s = before.repeat_s if found.repeat is None else seconds_of("repeat", found.repeat)
    texts = before.texts if found.texts is None else found.texts
    to = before.to if found.to is None else tuple(_target(name, targets) for name in found.to)
    return QueueAlerts(limits=replace(before.limits, **given), to=to, repeat_s=repeat_s, texts=texts)


def _check_limit(name: str, value: float) -> None:
    if not value >= 0 or (name in ("failing", "memory") and value > 1):
        most = ", at most 1" if name in ("failing", "memory") else ""
        raise ConfigurationError(f"{name}={value:g} must be at least 0{most}; 0: this is not told")


def _target(name: str, targets: Mapping[str, object]) -> str:
    if name not in targets:
        raise ConfigurationError(f"to: there is no target {name!r}; {nearest(name, targets)}")
    return name
