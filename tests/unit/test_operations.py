"""Operations over a net that answers from a list; and that a net which waits is found."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sequencer.net.blocking import finish
from sequencer.queue.operate import pause, unpause

from ..support.listed_net import ListedNet, ListedSession, run


def test_a_pause_of_all_shards_is_one_round_trip_and_says_whether_anything_changed() -> None:
    net = ListedNet([0, 1], [0, 0])
    session: Any = ListedSession(net, shards=2)
    assert run(pause(session)) is True
    assert run(unpause(session)) is False
    assert [(script, words[:2]) for script, *words in net.asked] == [("pause", ["", "1"])] * 2 + [
        ("pause", ["", "0"])
    ] * 2
    assert session.allowed == ["operate", "operate"]


def test_an_operation_that_waits_for_anything_but_its_net_is_found() -> None:
    async def wrong(_session: Any) -> None:
        await asyncio.sleep(0)

    with pytest.raises(RuntimeError, match=r"operation .*wrong waits for something that is not its net"):
        finish(wrong(None))
