"""Signals in the last moments of a run, when its consumers have ended."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from sequencer.testing import wait_until

if TYPE_CHECKING:
    from .conftest import Cli, Work


PATIENCE_S = 30.0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_behind_the_end_does_not_change_the_exit_status(cli: Cli, work: Work, number: signal.Signals) -> None:
    """The interpreter takes 0.2 s and more to end, with the signals' default actions."""
    work.add("a", {})
    consume = cli.start("consume", "jobs", "--app", "shop:handle")
    work.wait_handled("a-0")
    consume.signal(number)
    consume.wait_for("consumed 1 message")

    def has_ended() -> bool:
        if consume.process.poll() is None:
            consume.signal(number)
        return consume.process.poll() is not None

    wait_until(has_ended, PATIENCE_S)
    assert consume.ended() == 0
