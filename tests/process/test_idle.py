"""An idle consumer process: next to no commands, and a new message is begun promptly."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from sequencer.doctor.server import parse_info
from sequencer.net.link import Link
from sequencer.testing import wait_until

if TYPE_CHECKING:
    from .conftest import Cli, Work

PATIENCE_S = 30.0
INSIDE = {"hdel", "hlen", "hmget", "scard", "llen", "get", "zrangebyscore", "del", "zrange", "zcard", "zcount", "time"}
"""Commands that the claim script runs within itself; the server lists them beside those a client sent."""


def commands_sent(link: Link) -> int:
    """How many commands clients sent to the server so far, but for INFO and TIME, which this test sends."""
    stats = parse_info(link.command("INFO", "commandstats").decode())
    counts = {name.removeprefix("cmdstat_"): int(text.split(",")[0][len("calls=") :]) for name, text in stats.items()}
    return sum(count for name, count in counts.items() if name not in INSIDE | {"info"})


def server_time_s(link: Link) -> float:
    seconds, micros = link.command("TIME")
    return int(seconds) + int(micros) / 1e6


def test_an_idle_consumer_costs_next_to_nothing_and_starts_promptly(cli: Cli, work: Work, link: Link) -> None:
    work.add("a", {})
    cli.start("consume", "jobs", "--app", "shop:handle")
    work.wait_handled("a-0")
    wait_until(lambda: b"cmd=blpop" in link.command("CLIENT", "LIST"), PATIENCE_S, "it blocks on the dispatch list")

    sent, began = commands_sent(link), server_time_s(link)
    wait_until(lambda: server_time_s(link) >= began + 5.5, PATIENCE_S)
    sent, elapsed_s = commands_sent(link) - sent, server_time_s(link) - began
    assert 1 <= sent <= 0.5 * elapsed_s + 4, f"{sent} commands in {elapsed_s:.2f} s"

    delays = []
    for number in range(1, 4):
        wait_until(lambda: b"cmd=blpop" in link.command("CLIENT", "LIST"), PATIENCE_S)
        appended = time.monotonic()
        work.add("a", {})
        delays.append(work.wait_begun(f"a-{number}")["at"] - appended)
    assert min(delays) < 0.5, delays
