"""streaq: jobs in a stream. Their results are not kept."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .stage import Stage, in_windows, windows


def _worker(stage: Stage, concurrency: int) -> tuple[Any, Any]:
    worker = import_module("streaq").Worker(
        redis_url=stage.job.url, queue_name=stage.job.name, concurrency=concurrency, handle_signals=False
    )

    async def handle(group: str, message_id: str, body: dict[str, Any]) -> None:
        await stage.handle(group, message_id)

    return worker, worker.task(name="handle", ttl=0)(handle)


async def produce(stage: Stage) -> None:
    worker, handle = _worker(stage, 1)
    async with worker:
        if not stage.job.batch:
            await in_windows(stage, lambda one: handle.enqueue(one.group, one.id, one.body))
            return
        messages = stage.job.planned()
        stage.begin()
        for window in windows(messages, stage.job.setting["window"]):
            await worker.enqueue_many([handle.enqueue(one.group, one.id, one.body) for one in window])
        stage.end()


async def consume(stage: Stage) -> None:
    worker, _ = _worker(stage, stage.job.setting["concurrency"])
    stage.begin()
    await worker.run_async()
