"""What a file says of alerts: its targets, and the tables `alerts` of all queues and of one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ...errors import ConfigurationError
from ...settings.option import FLAG, declared, fields_of, names, option, read_options, read_table, seconds
from ...settings.tables import located
from ...settings.thresholds import FILE, Thresholds
from ...values.checks import nearest
from .targets import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueAlerts:
    """The alerts of one queue, and their targets. Times in seconds."""

    limits: Thresholds = field(default_factory=Thresholds)
    to: tuple[str, ...] = option(names("names of targets"), (), "Targets to notify. Default: all of them.", FILE)
    repeat_s: float = option(
        seconds(), 4 * 3600.0, "How often a condition that still holds is sent again. 0: never.", FILE
    )
    texts: bool = option(FLAG, True, "Send the texts of errors, not just their types.", FILE)

    def __post_init__(self) -> None:
        read_options(self)


def read_alerts(
    general: Mapping[str, Any] | None, own: Mapping[str, Mapping[str, Any]], targets: Mapping[str, Target]
) -> dict[str, QueueAlerts]:
    """The alerts of each queue: from its own table, else from the general one. Nothing where the file has neither, and
    no target. Raises ConfigurationError.
    """
    if general is None and not targets and not any(own.values()):
        return {}
    found = dict[str, QueueAlerts]()
    with located("alerts"):
        whole = _alerts(general or {}, targets, QueueAlerts(to=tuple(targets)))
    for queue, table in own.items():
        with located(f"queues.{queue}.alerts"):
            found[queue] = _alerts(table, targets, whole)
    named = {name for one in found.values() for name in one.to}
    if named and (unused := [name for name in targets if name not in named]):
        raise ConfigurationError("target_unused", place=[f"targets.{unused[0]}"])
    return found


def _alerts(table: Mapping[str, Any], targets: Mapping[str, object], before: QueueAlerts) -> QueueAlerts:
    given = read_table(table, declared(Thresholds, QueueAlerts))
    for name in given.get("to", ()):
        if name not in targets:
            raise ConfigurationError("name_unknown", kind="target", name=name, **nearest(name, targets))
    limits = replace(before.limits, **fields_of(Thresholds, given))
    return replace(before, limits=limits, **fields_of(QueueAlerts, given))
