"""GroupMQ in scenario `latency`: its producer and its consumer, in Node, as tasks of a Fleet.

Scenario `peers` installs it. This module's process writes the plan for it, and then becomes `node peers/latency.mjs`,
which keeps to the same rules: it says `ready`, begins at `go`, and leaves a history and a report.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from urllib.parse import urlsplit

from ...load.arrivals import due_times
from ...load.history import Row
from ...load.member import Parent
from ...load.task import Task, forget, play

MODULE = "benchmarks.scenarios.latency.nodejs"
CACHE = "bench-results/peers"
"""Where scenario `peers` installs, below the working directory."""
SCRIPT = Path(__file__).parents[2] / "peers" / "latency.mjs"
CONCURRENCIES = (1, 8)
"""Jobs at once in its worker: 1 is its default, and above 1 it reserves in batches. Both are measured."""


def missing(cache: Path) -> str:
    """Why GroupMQ can't take part, in words; "" when it can."""
    if shutil.which("node") is None:
        return "node is not on PATH"
    if not (cache / "groupmq" / "node_modules" / "groupmq").is_dir():
        return f"it is not installed in {cache}; `python -m benchmarks peers` does that"
    return ""


def forget_keys(url: str, namespace: str) -> None:
    """Delete the keys of one run. Raises ServerError."""
    forget(url, f"groupmq:{namespace}")


def become(task: Task, _parent: Parent, _rows: list[Row]) -> None:
    """Be the Node process of a task. Numbers: `cache`, where the packages are, and `concurrency`."""
    plan, times = Path(f"{task.history}.plan"), due_times(task.workload, task.numbers["rate"], is_steady=False)
    if task.role == "produce":
        messages = zip(times, task.workload.planned(0), strict=True)
        plan.write_text(json.dumps([[due, one.group, one.id, one.number, one.body()] for due, one in messages]))
    job = {
        "role": task.role,
        "redis": {"path": urlsplit(task.url).path} if task.url.startswith("unix:") else task.url,
        "namespace": task.namespace,
        "messages": task.workload.messages,
        "plan": str(plan),
        "history": task.history,
        "concurrency": task.numbers["concurrency"],
    }
    os.chdir(Path(task.numbers["cache"]) / "groupmq")
    os.execvp("node", ["node", str(SCRIPT), json.dumps(job)])


if __name__ == "__main__":
    play({"produce": become, "consume": become})
