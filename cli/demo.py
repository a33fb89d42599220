"""`sequencer demo`: made-up orders, a consumer killed halfway, a verdict.

Server, consumers and SIGKILL are real, and gone afterwards.
"""

from __future__ import annotations

import os
import random
import signal
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TextIO

from typer import Option

from ..client import Sequencer
from ..errors import SequencerError
from ..processes.pool import Pool
from ..processes.supervisor import Supervisor
from ..processes.worker.config import WorkerConfig
from ..server import EmbeddedServer
from ..texts.events import INFO, Event
from ..texts.words import many
from ..values.message import Message
from .app import JsonOption, app
from .many import progress
from .output import FINE, GAVE_UP, Answer, say
from .table import fields

QUEUE = "demo_orders"
STEPS = ("created", "paid", "packed", "shipped", "delivered")
OPEN_ORDERS = 400
HISTORY = "SEQUENCER_DEMO_HISTORY"
LEASE_S = 2.0
WORK_S = 0.0005


def orders(messages: int) -> Iterator[dict[str, Any]]:
    """The steps of many orders, interleaved, each order's in the order of `ts`."""
    chance, steps = random.Random(1), Counter[int]()
    for made in range(messages):
        order = made // (OPEN_ORDERS * len(STEPS)) * OPEN_ORDERS + chance.randrange(OPEN_ORDERS)
        step = STEPS[steps[order] % len(STEPS)]
        yield {"user_id": 1000 + order % 1000, "order_id": order, "step": step, "ts": made / 1000, "id": str(made)}
        steps[order] += 1


@cache
def _runs() -> TextIO:
    return open(Path(os.environ[HISTORY]) / str(os.getpid()), "a", buffering=1)


def handle(message: Message) -> None:
    """The consumers' handler: pretends to work, and writes down that it did."""
    began = time.monotonic()
    time.sleep(WORK_S)
    _runs().write(f"{message.id} {began} {time.monotonic()}\n")


@app.command()
def demo(
    processes: Annotated[int, Option("--processes", "-n", min=1, max=64, help="Consumer processes.")] = 8,
    messages: Annotated[int, Option(min=100, max=10_000_000, help="Number of messages.")] = 20_000,
    json: JsonOption = False,
) -> int:
    """Handle made-up orders, kill a consumer halfway, and check the result.

    Checks order, losses and duplicates, on a temporary server; nothing is left behind.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)  # everything is cleaned up on the way out
    with tempfile.TemporaryDirectory(prefix="sequencer-demo-") as name, EmbeddedServer(Path(name) / "server") as server:
        history = Path(name) / "history"
        history.mkdir()
        os.environ[HISTORY] = str(history)
        config = WorkerConfig(
            queue=QUEUE, url=server.url, app="sequencer.cli.demo:handle", lease_s=LEASE_S, log_level="ERROR"
        )
        with progress("handling", is_repeatable=False) as update:
            return _run(config, processes, messages, update).show(json)


def _forward(event: Event) -> bool:
    if event.level > INFO:
        say(event.text)
    return True


def _run(config: WorkerConfig, processes: int, messages: int, update: Callable[[int, int], None]) -> Answer:
    began, url, supervisor = time.monotonic(), config.url, Supervisor([Pool(config, processes, forward=_forward)])
    consuming = threading.Thread(target=supervisor.run, name="sequencer-demo-supervisor")
    consuming.start()
    threading.Thread(target=_append, args=(url, messages), name="sequencer-demo-producer", daemon=True).start()
    done = killed = 0
    try:
        with Sequencer(QUEUE, url) as queue:
            while done < messages and time.monotonic() < began + 60 + messages / 500:
                done = queue.info().totals["handled"]
                update(done, messages)
                if not killed and done >= messages // 2 and len(supervisor.pids) == processes:
                    killed = supervisor.pids[-1]
                    os.kill(killed, signal.SIGKILL)
                    say(f"killed consumer {killed} halfway; its groups wait for their leases to end ({LEASE_S:g} s)")
                time.sleep(0.02)
    finally:
        while consuming.is_alive():  # each time less patiently
            supervisor.stop()
            consuming.join(20.0)
    found, took_s = _checked(messages, killed), time.monotonic() - began
    is_clean = bool(killed) and not (found["disorder"] or found["losses"] or found["unexplained"])
    value = {**found, "messages": messages, "consumers": processes, "seconds": took_s, "killed": killed}
    shown = {
        "messages": messages,
        "order violations": found["disorder"],
        "losses": found["losses"],
        "duplicates": f"{found['duplicates']:,} ({found['duplicates'] - found['unexplained']:,} explained by the kill)",
        "seconds": f"{took_s:.1f}, with {many(processes, 'consumer')}, one killed halfway",
        "verdict": "clean" if is_clean else "NOT CLEAN",
    }
    return Answer({**value, "is_clean": is_clean}, fields(shown), status=FINE if is_clean else GAVE_UP)


def _checked(messages: int, killed: int) -> Counter[str]:
    """Each step of an order begins after the one before it succeeded; a message is handled again only where the killed
    consumer had handled it.
    """
    runs = defaultdict[str, list[tuple[float, float, int]]](list)
    for path in Path(os.environ[HISTORY]).iterdir():
        for id, began, ended in map(str.split, path.read_text().splitlines()):
            runs[id].append((float(began), float(ended), int(path.name)))
    found, succeeded = Counter(losses=0, disorder=0, duplicates=0, unexplained=0), dict[int, float]()
    for one in orders(messages):
        if not (own := runs[one["id"]]):
            found["losses"] += 1
            continue
        order, more = one["order_id"], len(own) - 1
        found["disorder"] += min(own)[0] < succeeded.get(order, 0.0)
        succeeded[order] = min(ended for _, ended, _ in own)
        found["duplicates"] += more
        found["unexplained"] += 0 if killed in [pid for *_, pid in own] else more
    return found


def _append(url: str | None, messages: int) -> None:
    with (
        suppress(SequencerError),  # the server is stopped under it where the demo is
        Sequencer(QUEUE, url, group_by=("user_id", "order_id"), score_by="ts", id_by="id") as queue,
    ):
        queue.append_many(orders(messages), chunk=50)
