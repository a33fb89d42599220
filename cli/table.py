"""A table of texts that fits a terminal without cutting what somebody has to copy. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from rich.cells import cell_len, set_cell_size
from rich.text import Text

GAP_FROM = 100
"""Columns of a terminal from which on cells are two blanks apart."""
MIN_CUT = 16
"""Columns that a text which may be cut keeps."""


@dataclass(frozen=True, slots=True)
class Column:
    """`rank`: 0 is always shown. Where the terminal is too narrow, the highest goes first."""

    name: str
    rank: int = 0
    is_cut: bool = False
    """Whether its texts may be cut at their end: nobody has to copy them."""


@dataclass(slots=True)
class Table:
    """Rows under the names of their columns.

    What is always shown may be wider than the terminal. That wraps the line, and what is copied of it is whole.
    """

    columns: list[Column]
    width: int | None = None
    """Of the terminal; None without one."""
    rows: list[list[str]] = field(default_factory=list)

    def add_row(self, *texts: str) -> None:
        """One text for each column."""
        self.rows.append(list(texts))

    def __rich__(self) -> Text:
        return Text(str(self))

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """The head, where the columns have names, and the rows."""
        head = [[column.name for column in self.columns]] if any(column.name for column in self.columns) else []
        rows = [*head, *self.rows]
        widths = [max((cell_len(row[i]) for row in rows), default=0) for i in range(len(self.columns))]
        gap = 2 if self.width is None or self.width >= GAP_FROM else 1
        shown = _fitted(self.columns, widths, gap, self.width)
        return [_joined([(_cut(row[i], width), width) for i, width in shown.items()], " " * gap) for row in rows]


def _joined(cells: list[tuple[str, int]], gap: str) -> str:
    return gap.join(text + " " * (width - cell_len(text)) for text, width in cells).rstrip()


def _fitted(columns: list[Column], widths: list[int], gap: int, width: int | None) -> dict[int, int]:
    """The columns that are shown, by their place, each with its width."""
    shown = dict(enumerate(widths))
    while width is not None and (over := sum(shown.values()) + gap * (len(shown) - 1) - width) > 0:
        cut = next((i for i in shown if columns[i].is_cut), None)
        if cut is not None and shown[cut] - over >= MIN_CUT:
            shown[cut] -= over
            break
        last = max(shown, key=lambda i: columns[i].rank)
        if not columns[last].rank:
            break
        del shown[last]
    return shown


def _cut(text: str, width: int) -> str:
    return text if cell_len(text) <= width else f"{set_cell_size(text, width - 3).rstrip()}..."
