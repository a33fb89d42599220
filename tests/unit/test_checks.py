"""Which name was perhaps meant."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sequencer.values.checks import near_name

NAMES = st.text("abo-1", min_size=1, max_size=6)


@pytest.mark.parametrize(
    ("name", "known", "near"),
    [
        ("jbos", ["jobs", "orders"], "jobs"),
        ("tenant-12", ["tenant-11", "tenants"], ""),
        ("shoop", ["stop", "shop"], "shop"),
        ("orders-eu", ["orders-us"], ""),
        ("payment", ["paymnet", "payments"], "payments"),
        ("bank", ["bank2"], ""),
    ],
)
def test_a_name_like_it_is_found(name: str, known: list[str], near: str) -> None:
    assert near_name(name, known) == near


@given(NAMES, st.lists(NAMES))
def test_it_is_another_name_and_none_of_a_series(name: str, known: list[str]) -> None:
    near = near_name(name, known)
    assert near == "" or (near in known and near != name)
    kinds = {re.sub("1", "", other) for other in known if other != name}
    if re.sub("1", "", name) in kinds:
        assert near == ""
