"""What the search of the dashboard makes of what people paste."""

from __future__ import annotations

from typing import Any

import pytest

from sequencer.texts.words import named
from sequencer.web.find import readings


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("1002", [(("1002",), None)]),
        ("1002 77", [(("1002", "77"), None), (("1002",), "77"), (("1002 77",), None)]),
        (f"{named(('a b', '7'))}", [(("a b", "7"), None), (("a b",), "7"), (("'a b' 7",), None)]),
        ('["a", "b c"]', [(("a", "b c"), None)]),
        ('["a", 7] m1', [(("a", "7"), "m1")]),
        ("it's", [(("it's",), None)]),
        ("[]", []),
        ("[" * 1900, [(("[" * 1900,), None)]),
        ("", []),
        (" ", []),
    ],
)
def test_what_is_typed_is_read_in_each_way_it_may_be_meant(text: str, wanted: list[Any]) -> None:
    assert readings(text) == wanted
