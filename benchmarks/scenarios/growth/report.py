"""What scenario `growth` came to: rates, each over that of the smallest size, the longest calls, and memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...kit import rounds
from ...kit.rounds import Run, show, show_valid
from .stream import MARKS

PHASES = ("append", "drain")
KINDS = {
    "messages": "messages of one group",
    "each": "messages, each of another group",
    "a group": "messages a group",
    "cold": "groups, the cold ones too",
}
Summary = list[dict[str, Any]]


def summarise(runs: Sequence[Run]) -> Summary:
    """For each size: figures of the valid runs, and each over that of the smallest size in the same round."""
    found = rounds.summarise(runs, lambda run: run.settings["base"])
    kinds = list(KINDS)
    return sorted(found, key=lambda entry: (kinds.index(entry["settings"]["kind"]), entry["settings"]["size"]))


def tables(summary: Summary) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """Title, columns and rows of each table."""
    names = [[entry["case"], show_valid(entry)] for entry in summary]

    def rows(columns: Sequence[str], of: str = "figures", digits: int = 2) -> list[list[str]]:
        cells = ([show(entry[of].get(column), digits) for column in columns] for entry in summary)
        return [[*name, *row] for name, row in zip(names, cells, strict=True)]

    head = ["appended and drained", "valid runs"]
    rates = [f"{phase} /s" for phase in PHASES]
    yield "Messages a second with one process: median (min..max)", [*head, *rates], rows(rates, digits=0)
    yield "Over the smallest size in the same round", [*head, *rates], rows(rates, "of_base")
    cpu = [f"{phase} us server" for phase in PHASES]
    yield "The server's processor time for each message, us", [*head, *cpu], rows(cpu)
    calls = [f"{phase} {what} ms" for phase in PHASES for what in ("p99.9", "longest")]
    yield "How long one call of a script blocks the server, ms", [*head, *calls], rows(calls)
    memory = [f"rss {mark} MB" for mark in MARKS]
    yield "Resident memory of the consumer, MB", [*head, *memory], rows(memory, digits=1)
