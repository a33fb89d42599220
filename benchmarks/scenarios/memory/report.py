"""What scenario `memory` came to, in bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...kit.rounds import show, show_valid
from .trials import PENDING

SHOWN = (*(kind for kind in PENDING if kind != "leases"), "other")
Summary = list[dict[str, Any]]


def tables(summary: Summary) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """Title, columns and rows of each table."""
    names = [[entry["case"], show_valid(entry)] for entry in summary]

    def rows(columns: Sequence[str]) -> list[list[str]]:
        cells = ([show(entry["figures"].get(column), 0) for column in columns] for entry in summary)
        return [[*name, *row] for name, row in zip(names, cells, strict=True)]

    head = ["groups x messages each", "valid runs"]
    kinds = [f"pending {kind}" for kind in SHOWN]
    title = "Bytes for each pending message with a body of 200 bytes, by key (other: rounding and table of keys)"
    yield title, [*head, *SHOWN, "all"], rows([*kinds, "pending all"])
    yield (
        "Bytes beyond body and id, for each pending message and for each group",
        [*head, "id", "a message", "a group"],
        rows(["id", "beyond body and id", "beyond, a group"]),
    )
    yield (
        "Bytes of what is kept: a lease while it is held, an id for 5 to 10 min, a group's watermark for 1 to 2 h; "
        "ids at 1,000 messages a second, kept for 10 min",
        [*head, "lease", "id (seen)", "ids, MB", "watermark", "all, a message"],
        rows(["lease", "handled dedup", "ids, MB", "handled watermarks", "handled all"]),
    )
