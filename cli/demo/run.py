"""The main job on made-up orders: producers and consumers at once, one consumer killed half-way, then a verdict.

Everything is real (an embedded server in a temporary directory, processes, SIGKILL) and gone afterwards. `simulate` is
the whole run; `python -m sequencer.cli.demo.run` is a producer; `handle` is the consumers' handler, which writes
down what it did.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...client import Sequencer
from ...errors import SequencerError
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
PRODUCERS = 2
WORK_S = 0.0005
LATE_ACK_S = 0.1
"""An ack leaves within 10 ms of running time; on a busy machine a process may stand still for several times that."""


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


def orders(producer: int, messages: int) -> Iterator[dict[str, Any]]:
    """One producer's messages: the steps of many orders, interleaved, each order's in the order of `ts`."""
    chance = random.Random(producer)
    ts, made = 1_700_000_000.0, 0
    open_orders: list[list[int]] = []
    next_order = producer * 10_000_000
    while made < messages:
        if len(open_orders) < 400:
            next_order += 1
            open_orders.append([chance.randrange(1000, 2000), next_order, 0])
        order = chance.choice(open_orders)
        ts += 0.001
        yield {
            "user_id": order[0],
            "order_id": order[1],
            "step": STEPS[order[2]],
            "ts": round(ts, 3),
            "n": made,
        }
        made += 1
        order[2] += 1
        if order[2] == len(STEPS):
            open_orders.remove(order)


def produce(url: str, producer: int, messages: int, path: str) -> None:
    """Append one producer's orders in small batches, and write down the ids."""
    with (
        Sequencer(QUEUE, url, group_by=("user_id", "order_id"), score_by="ts", id_by="id") as queue,
        open(path, "w", encoding="utf-8") as appended,
    ):
        some: list[dict[str, Any]] = []
        for order in orders(producer, messages):
            order["id"] = f"{producer}-{order['n']}"
            some.append(order)
            if len(some) == 50 or order["n"] == messages - 1:
                queue.append_many(some)
                appended.writelines(f"{o['user_id']}:{o['order_id']} {o['id']}\n" for o in some)
                some = []


def handle(message: Message) -> None:
    """Pretend to work, then write the run down in one piece before it is acknowledged."""
    started = time.monotonic()
    time.sleep(WORK_S)
    record = [
        ":".join(message.group),
        message.id,
        message.score,
        message.stamp,
        message.token,
        started,
        time.monotonic(),
    ]
    with open(f"{os.environ[HISTORY]}/handled-{os.getpid()}", "ab", buffering=0) as history:
        history.write(json.dumps(record).encode() + b"\n")


def read_history(directory: Path) -> tuple[set[tuple[str, str]], list[Handled]]:
    """What was appended, and what was handled; a line cut short by the kill is a run that did not end."""
    expected: set[tuple[str, str]] = set()
    for path in directory.glob("appended-*"):
        for line in path.read_text().splitlines():
            group, _, message_id = line.partition(" ")
            expected.add((group, message_id))
    handled = []
    for path in directory.glob("handled-*"):
        for text in path.read_text().splitlines(keepends=True):
            if text.endswith("\n"):
                group, message_id, score, stamp, token, started, ended = json.loads(text)
                consumer = path.name.partition("-")[2]
                handled.append(Handled(group, message_id, score, stamp, token, started, ended, consumer))
    return expected, handled


def simulate(
    processes: int, messages: int, say: Callable[[str], None], on_progress: Callable[[int, int], None]
) -> Outcome:
    """Run it all in a temporary directory and judge it; nothing of it is left running. Raises ServerNotUsable."""
    began = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="sequencer-demo-") as name,
        EmbeddedServer(Path(name) / "server") as server,
    ):
        directory = Path(name)
        os.environ[HISTORY] = name
        killed, allowed, problem = None, 0, ""
        config = WorkerConfig(
            queue=QUEUE, url=server.url, app="sequencer.cli.demo.run:handle", lease_s=LEASE_S, log_level="ERROR"
        )

        def forward(event: Event) -> bool:
            if event.level > INFO:
                say(event.text)
            return True

        supervisor = Supervisor(config, processes, forward=forward)
        status: list[int] = []
        thread = threading.Thread(target=lambda: status.append(supervisor.run()), name="sequencer-demo-supervisor")
        thread.start()
        producers: list[subprocess.Popen[bytes]] = []
        try:
            if not supervisor.wait_ready(30.0):
                problem = "the consumers did not start"
            share = messages // PRODUCERS
            producers = [
                subprocess.Popen(
                    [
                        sys.executable,
                        "-P",
                        "-m",
                        "sequencer.cli.demo.run",
                        server.url,
                        str(p),
                        str(share),
                        f"{name}/appended-{p}",
                    ]
                )
                for p in range(PRODUCERS)
            ]
            with Sequencer(QUEUE, server.url) as queue:
                deadline = time.monotonic() + 60 + messages / 500
                while True:
                    totals = queue.info().totals
                    on_progress(min(totals["handled"], messages), messages)
                    if (
                        killed is None
                        and totals["handled"] >= share * PRODUCERS // 2
                        and len(supervisor.pids) == processes
                    ):
                        killed = supervisor.pids[-1]
                        os.kill(killed, signal.SIGKILL)
                        say(f"killed consumer {killed} half-way; its groups wait for their lease ({LEASE_S:g} s)")
                    is_appended = all(p.poll() is not None for p in producers)
                    if is_appended and queue.info().groups == 0:
                        break
                    if time.monotonic() > deadline or not thread.is_alive():
                        problem = "the consumers gave up" if status else "not finished in time"
                        break
                    time.sleep(0.02)
                if any(p.returncode for p in producers):
                    problem = "a producer failed"
        except SequencerError as error:
            problem = str(error)
        finally:
            supervisor.stop()
            thread.join(20.0)
            if thread.is_alive():
                supervisor.stop()
                supervisor.stop()
                thread.join()
            for process in producers:
                process.kill()
                process.wait()
        expected, handled = read_history(directory)
        allowed = explained_duplicates(handled, str(killed))
        verdict = check_history(expected, handled)
        return Outcome(verdict, processes, time.monotonic() - began, killed, allowed, problem)


def explained_duplicates(handled: list[Handled], killed: str) -> int:
    """How many messages may have been handled twice: those the killed consumer finished in its last LATE_ACK_S."""
    by_killed = [record for record in handled if record.consumer == killed]
    last = max((record.ended for record in by_killed), default=0.0)
    recent = {record.id for record in by_killed if record.ended > last - LATE_ACK_S}
    return sum(1 for record in handled if record.consumer != killed and record.id in recent)


if __name__ == "__main__":
    produce(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
