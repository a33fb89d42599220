"""A process of a chaos run: `python -m tests.faults.chaos.part ROLE`, with orders as JSON lines on standard input.

Each order is answered by one line. The end of standard input ends the process. Roles: proxy, consumers (a supervisor
with its consumers), producer, looper, operator.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import Any

import orjson

from sequencer.processes.pool import Pool
from sequencer.processes.supervisor import Supervisor
from sequencer.processes.worker.config import WorkerConfig
from tests.support.proxy.fault_proxy import FaultProxy

from .setting import QUEUE, Setting

CONSUMERS = 3
Order = dict[str, Any]


def obey(carry_out: Callable[[Order], Any]) -> None:
    """Carry out orders until there are no more.

    Without buffers: a thread that waits in one when the interpreter ends makes that a crash.
    """
    with os.fdopen(os.dup(0), "rb", buffering=0) as orders:
        for line in orders:
            os.write(1, orjson.dumps(carry_out(orjson.loads(line))) + b"\n")


def be_proxy(setting: Setting, server: str) -> None:
    """Orders: {"add": kind, ...} with the arguments of `FaultProxy.add`; {"clear": true}. The answer: `pending`."""
    recorder = setting.recorder("proxy")

    def watch(name: str, reply: bytes, who: str) -> None:
        without_any = {"ack": b"*1", "renew": b"*0"}.get(name)
        if without_any and reply.startswith(b"*") and reply.split(b"\r", 1)[0] != without_any:
            recorder.note("seen", who=who, kind="stale token refused")

    def carry_out(order: Order) -> int:
        if "add" in order:
            proxy.add(order.pop("add"), **order)
        elif "clear" in order:
            proxy.clear()
        return proxy.pending

    with FaultProxy(server, setting.proxy_path, seed=setting.seed, recorder=recorder, watch=watch) as proxy:
        obey(carry_out)


def be_consumers(setting: Setting) -> int:
    """Orders: {"signal": number, "index": which}, or "pid" in place of "index". The answer: the process it went to."""
    app = "tests.faults.chaos.victim:seq"
    config = WorkerConfig(queue=QUEUE, app=app, lease_s=setting.lease_s, concurrency=setting.concurrency)
    supervisor = Supervisor([Pool(config, CONSUMERS)])

    def carry_out(order: Order) -> int:
        pids = supervisor.pids
        if "pid" in order:
            pids = [pid for pid in pids if pid == order["pid"]]
        if not pids:
            return 0
        pid: int = pids[order.get("index", 0) % len(pids)]
        os.kill(pid, order["signal"])
        return pid

    def listen() -> None:
        obey(carry_out)
        supervisor.stop()

    threading.Thread(target=listen, daemon=True).start()
    return supervisor.run()


def be(role: str, setting: Setting) -> None:
    """A producer, a looper or an operator; none of them takes orders."""
    from .looper import Looper
    from .operator import Operator
    from .producer import Producer

    def listen() -> None:
        obey(lambda order: None)
        os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    parts: dict[str, type[Producer | Looper | Operator]] = {
        "producer": Producer,
        "looper": Looper,
        "operator": Operator,
    }
    parts[role](setting).run()


def main() -> int:
    setting, role = Setting.from_environment(), sys.argv[1]
    if role == "proxy":
        be_proxy(setting, sys.argv[2])
    elif role == "consumers":
        return be_consumers(setting)
    else:
        be(role, setting)
    return 0


if __name__ == "__main__":
    sys.exit(main())
