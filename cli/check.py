"""`sequencer check`: whether a queue is within limits, for cron and monitoring systems."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from ..client import Sequencer
from ..errors import ConfigurationError
from ..texts.commands import command
from .app import DURATION, FINE, FOUND, JsonOption, app, call_option, queue_command
from .render import cells, console, print_json, seconds, table

_TIME: dict[str, Any] = {"show_default": False, **DURATION}
_COUNT: dict[str, Any] = {"min": 0, "show_default": False}


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit beside what was found."""

    name: str
    value: float
    limit: float
    see: str
    """A command that shows what is behind it."""
    unit: str = ""
    """ "s" for seconds, else a count."""

    @property
    def is_passed(self) -> bool:
        return self.value > self.limit

    def words(self, value: float) -> str:
        return seconds(value) if self.unit == "s" else f"{value:,.0f}"

    def as_json(self) -> dict[str, Any]:
        """In seconds, or a count."""
        name, value, limit = (self.name, self.value, self.limit)
        return {"name": name, "value": value, "limit": limit, "is_passed": self.is_passed, "see": self.see}


@queue_command(app)
def check(
    client: Sequencer,
    max_wait: Annotated[
        float | None, call_option("--max-wait", help="How long a due group may wait for a consumer.", **_TIME)
    ] = None,
    max_no_consumers: Annotated[
        float | None,
        call_option(
            "--max-no-consumers", help="How long groups may be due while no consumer has any in progress.", **_TIME
        ),
    ] = None,
    max_lag: Annotated[
        float | None, call_option("--max-lag", help="Age of the oldest head of a group.", **_TIME)
    ] = None,
    max_backlog: Annotated[int | None, call_option("--max-backlog", help="Messages that wait.", **_COUNT)] = None,
    max_parked: Annotated[int | None, call_option("--max-parked", help="Parked groups.", **_COUNT)] = None,
    max_dead: Annotated[int | None, call_option("--max-dead", help="Dead letters.", **_COUNT)] = None,
    json: JsonOption = False,
) -> int:
    """Compare a queue with limits, a line for each; exit code 5 when one is passed.

    For cron and monitoring systems. A time is written as 90s, 10m, 2h or 1d. --max-lag and --max-backlog read each
    group, up to 20,000 of them, and take a sample above.
    """
    times = {"wait": max_wait, "no_consumers": max_no_consumers, "lag": max_lag}
    counts = {"backlog": max_backlog, "parked": max_parked, "dead": max_dead}
    limits = {name: float(most) for name, most in {**times, **counts}.items() if most is not None}
    if not limits:
        raise ConfigurationError("say at least one limit, for example --max-wait 60s or --max-parked 0")
    found = [_compared(client, name, limits[name], value) for name, value in _values(client, limits).items()]
    is_fine = not any(one.is_passed for one in found)
    if json:
        print_json({"queue": client.queue, "is_fine": is_fine, "limits": [one.as_json() for one in found]})
    else:
        _show(found)
    return FINE if is_fine else FOUND


def _values(client: Sequencer, names: dict[str, float]) -> dict[str, float]:
    """What was found for each of these names, by as few looks as they need."""
    found: dict[str, float] = {}
    if names.keys() & {"wait", "parked", "dead"}:
        snapshot = client.snapshot()
        found |= {"wait": snapshot.waits_s, "parked": snapshot.parked, "dead": snapshot.dead}
    if names.keys() & {"no_consumers", "lag", "backlog"}:
        info = client.info()
        found |= {"lag": info.lag_s, "backlog": info.backlog}
        found["no_consumers"] = info.no_consumers.waits_s if info.no_consumers else 0.0
    return {name: found[name] for name in names}


def _compared(client: Sequencer, name: str, limit: float, value: float) -> Limit:
    see = {"parked": "parked", "dead": "dead list", "wait": "groups", "lag": "groups"}.get(name, "info")
    line = command(see, client.queue, namespace=client.options.namespace)
    return Limit(name, value, limit, line, "s" if name in ("wait", "no_consumers", "lag") else "")


def _show(found: list[Limit]) -> None:
    rows = table("", "limit", "found", "at most", "see")
    for one in found:
        state, see = ("passed", one.see) if one.is_passed else ("ok", "")
        rows.add_row(*cells(state, one.name, one.words(one.value), one.words(one.limit), see))
    console().print(rows)
