"""The main job on made-up orders: producers and consumers at once, one consumer killed half-way, then a verdict.

Server, consumers and SIGKILL are real, and gone afterwards. `handle` is the consumers' handler, which writes down what
it did.
"""

from __future__ import annotations

import json
import os
import random
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from ...client import Sequencer
from ...errors import SequencerError
from ...processes.pool import Pool
from ...processes.supervisor import Supervisor
from ...processes.worker.config import WorkerConfig
from ...server import EmbeddedServer
from ...testing import Handled, Verdict, check_history
from ...texts.events import INFO, Event
from ...values.message import Message

QUEUE = "demo_orders"
STEPS = ("created", "paid", "packed", "shipped", "delivered")
HISTORY = "SEQUENCER_DEMO_HISTORY"
LEASE_S = 2.0
WORK_S = 0.0005
LATE_ACK_S = 0.1
"""An ack leaves within 10 ms of running time; on a busy machine a process may stand still for several times that."""
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The verdict, and what the run was. `allowed_duplicates` are those that the kill explains."""

    verdict: Verdict
    consumers: int
    seconds: float
    killed: int | None
    allowed_duplicates: int
    problem: str = ""

    @property
    def is_clean(self) -> bool:
        return not self.problem and self.killed is not None and self.verdict.is_clean(self.allowed_duplicates)


def orders(messages: int) -> Iterator[dict[str, Any]]:
    """The steps of many orders, interleaved, each order's in the order of `ts`."""
    chance = random.Random(1)
    open_orders: list[list[int]] = []
    next_order = 0
    for made in range(messages):
        if len(open_orders) < 400:
            next_order += 1
            open_orders.append([chance.randrange(1000, 2000), next_order, 0])
        order = chance.choice(open_orders)
        ts = round(1_700_000_000.0 + made / 1000, 3)
        yield {"user_id": order[0], "order_id": order[1], "step": STEPS[order[2]], "ts": ts, "id": str(made)}
        order[2] += 1
        if order[2] == len(STEPS):
            open_orders.remove(order)


def handle(message: Message) -> None:
    """Pretend to work, then write the run down in one piece before it is acknowledged."""
    started = time.monotonic()
    time.sleep(WORK_S)
    name = ":".join(message.group)
    record = [name, message.id, message.score, message.stamp, message.token, started, time.monotonic()]
    with open(f"{os.environ[HISTORY]}/handled-{os.getpid()}", "ab", buffering=0) as history:
        history.write(json.dumps(record).encode() + b"\n")


def read_history(directory: Path) -> list[Handled]:
    """What was handled; a line cut short by the kill is a run that did not end."""
    handled = []
    for path in directory.glob("handled-*"):
        for text in path.read_text().splitlines(keepends=True):
            if text.endswith("\n"):
                handled.append(Handled(*json.loads(text))._replace(consumer=path.name.partition("-")[2]))
    return handled


def simulate(processes: int, messages: int, say: Say, on_progress: Callable[[int, int], None]) -> Outcome:
    """Run it all in a temporary directory and judge it; nothing of it is left running. Raises ServerNotUsable."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="sequencer-demo-") as name, EmbeddedServer(Path(name) / "server") as server:
        os.environ[HISTORY] = name
        config = WorkerConfig(
            queue=QUEUE, url=server.url, app="sequencer.cli.demo.run:handle", lease_s=LEASE_S, log_level="ERROR"
        )

        def forward(event: Event) -> bool:
            if event.level > INFO:
                say(event.text)
            return True

        pool = Pool(config, processes, forward=forward)
        supervisor = Supervisor([pool])
        threads = [
            threading.Thread(target=supervisor.run, name="sequencer-demo-supervisor"),
            threading.Thread(target=_produce, args=(server.url, messages), name="sequencer-demo-producer", daemon=True),
        ]
        for thread in threads:
            thread.start()
        killed, problem = None, ""
        try:
            deadline = time.monotonic() + 60 + messages / 500
            with Sequencer(QUEUE, server.url) as queue:
                while not problem and (done := queue.info().totals["handled"]) < messages:
                    on_progress(done, messages)
                    if killed is None and done >= messages // 2 and len(supervisor.pids) == processes:
                        killed = supervisor.pids[-1]
                        os.kill(killed, signal.SIGKILL)
                        say(
                            f"killed consumer {killed} halfway; its groups wait for their leases to end ({LEASE_S:g} s)"
                        )
                    if time.monotonic() > deadline or not threads[0].is_alive():
                        problem = "not finished in time"
                    time.sleep(0.02)
        except SequencerError as error:
            problem = str(error)
        finally:
            while threads[0].is_alive():  # each time less patiently
                supervisor.stop()
                threads[0].join(20.0)
        handled = read_history(Path(name))
        expected = {(f"{one['user_id']}:{one['order_id']}", one["id"]) for one in orders(messages)}
        allowed = explained_duplicates(handled, str(killed))
        verdict = check_history(expected, handled)
        return Outcome(verdict, processes, time.monotonic() - began, killed, allowed, problem)


def _produce(url: str, messages: int) -> None:
    with Sequencer(QUEUE, url, group_by=("user_id", "order_id"), score_by="ts", id_by="id") as queue:
        source = orders(messages)
        with suppress(SequencerError):  # the server is stopped under it where the demo is
            while some := list(islice(source, 50)):
                queue.append_many(some)


def explained_duplicates(handled: list[Handled], killed: str) -> int:
    """How many messages may have been handled twice: those the killed consumer finished in its last LATE_ACK_S."""
    by_killed = [record for record in handled if record.consumer == killed]
    last = max((record.ended for record in by_killed), default=0.0)
    recent = {record.id for record in by_killed if record.ended > last - LATE_ACK_S}
    return sum(1 for record in handled if record.consumer != killed and record.id in recent)
