"""Tables on terminals of any width: what has to be copied is whole, and the rest fits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from sequencer.cli import table as module
from sequencer.cli.show import group_table
from sequencer.values.views import GroupInfo

TEXTS = st.text(st.characters(categories=["L", "N"]), max_size=30)


def group(*parts: str, head: str = "evt-1") -> GroupInfo:
    return GroupInfo(parts, "due", 1, 0.5, 0.0, head, 1.0, 0, "host:4711:" + "x" * 40, 1, 1.0, None)


def lines_of(width: int | None, rows: list[list[str]]) -> list[str]:
    named = [dict(zip(("id", "age", "group", "state", "error"), row, strict=True)) for row in rows]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "terminal_width", lambda: width)
        return module.table(named, "error, age, state", cut="error").split("\n")


@given(st.lists(st.lists(TEXTS, min_size=5, max_size=5), min_size=1, max_size=4), st.none() | st.integers(1, 200))
def test_what_has_to_be_copied_is_whole_on_any_width(rows: list[list[str]], width: int | None) -> None:
    lines = lines_of(width, rows)
    assert len(lines) == len(rows) + 1
    for row, line in zip(rows, lines[1:], strict=True):
        assert row[0] in line
        assert row[2] in line
        if width is None:
            assert [text for text in row if text not in line] == []
    if width is not None and max(map(cell_len, lines)) > width:
        assert lines[0].split() == ["id", "group"], "no wider than it has to be"


@pytest.mark.parametrize(
    ("width", "head"),
    [
        (None, "id age group state error"),
        (44, "id age group state error"),
        (34, "id age group state"),
        (24, "id group state"),
        (14, "id group"),
    ],
)
def test_columns_go_in_their_order(width: int | None, head: str) -> None:
    lines = lines_of(width, [["evt-1", "1.6 s", "a b", "waiting", "ValueError: no such thing as this"]])
    assert lines[0].split() == head.split()
    assert width is None or width < 11 or max(map(len, lines)) <= width
    assert lines[1].endswith("...") == (width == 44)


@pytest.mark.parametrize("columns", [40, 80])
def test_groups_and_heads_are_whole_on_a_narrow_terminal(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "terminal_width", lambda: columns)
    uuid, order = "0f2c6c5e-7a49-4f0e-9a53-3d9c1f1f0d11", "customer 4711"
    lines = group_table([group(uuid, order, head=f"evt-{uuid}"), group("a")]).splitlines()
    assert f"{uuid} '{order}'" in lines[1]
    assert f"evt-{uuid}" in lines[1]
    assert lines[2].startswith("a ")
