"""A notice with everything in it, for tests of what is made of one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sequencer.processes.alerts.notice import Item, Notice

OPENED = 1_700_000_000.0
"""2023-11-14 22:13:20 UTC"""
ITEM = Item(
    group="1002 'a b'",
    id="m1",
    error="ValueError: no such card",
    at=OPENED + 1.5,
    commands=("sequencer resume orders 1002 'a b'",),
)
NOTICE = Notice(
    incident="shop:orders:parked:1700000000000000",
    number=0,
    what="open",
    namespace="shop",
    queue="orders",
    kind="parked",
    environment="production",
    host="web-1",
    opened_at=OPENED,
    at=OPENED + 90,
    value=3.0,
    limit=1.0,
    unit="",
    text="3 groups are parked",
    items=(ITEM,),
    more=2,
    commands=("sequencer groups orders --state parked",),
)


def notice(**changes: Any) -> Notice:
    """NOTICE with changes."""
    return replace(NOTICE, **changes)
