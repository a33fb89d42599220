"""saq: jobs in a list, as JSON. Nothing is kept of a finished job."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .stage import Stage, in_windows


def _url(stage: Stage) -> str:
    """Each job at once takes a connection: the driver's own limit is 100."""
    return f"{stage.job.url}?max_connections=3000"


async def produce(stage: Stage) -> None:
    queue = import_module("saq").Queue.from_url(_url(stage), name=stage.job.name)
    await queue.connect()
    await in_windows(
        stage, lambda one: queue.enqueue("handle", key=one.id, ttl=-1, group=one.group, id=one.id, body=one.body)
    )


async def consume(stage: Stage) -> None:
    async def handle(_context: Any, *, group: str, id: str, body: Any) -> None:
        await stage.handle(group, id)

    saq = import_module("saq")
    queue = saq.Queue.from_url(_url(stage), name=stage.job.name)
    await queue.connect()
    worker = saq.Worker(queue, [("handle", handle)], concurrency=stage.job.setting["concurrency"])
    stage.begin()
    await worker.start()
