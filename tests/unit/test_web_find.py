"""What the search of the dashboard makes of what people paste."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sequencer.texts.commands import command
from sequencer.web.find import Wanted, readings

LOGGED = "jobs: group parked: ...; inspect: "


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("1002", [Wanted(("1002",))]),
        ("1002 77", [Wanted(("1002", "77")), Wanted(("1002",), "77"), Wanted(("1002 77",))]),
        ('"a b" 7', [Wanted(("a b", "7")), Wanted(("a b",), "7"), Wanted(('"a b" 7',))]),
        ('["a", "b c"]', [Wanted(("a", "b c"))]),
        ('["a", 7] m1', [Wanted(("a", "7"), "m1")]),
        ("it's", [Wanted(("it's",))]),
        ("[]", []),
        ("[" * 1900, [Wanted(("[" * 1900,))]),
        ("", []),
        (" ", []),
        ("sequencer explain orders 1002 'a b'", [Wanted(("1002", "a b"), None, "orders")]),
        ("sequencer skip orders 7 --id m1", [Wanted(("7",), "m1", "orders")]),
        ("sequencer dead redrive --id=-m1 --namespace n -- orders -7", [Wanted(("-7",), "-m1", "orders")]),
        ("sequencer resume orders --all", []),
        ("sequencer", []),
    ],
)
def test_what_is_typed_is_read_in_each_way_it_may_be_meant(text: str, wanted: list[Wanted]) -> None:
    assert readings(text) == wanted


@pytest.mark.slow
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1), min_size=1))
def test_a_line_that_we_print_finds_its_group(group: list[str]) -> None:
    line = command("explain", "orders", *group, options=["--id", "m1"])
    assert readings(line) == [Wanted(tuple(group), "m1", "orders")]
