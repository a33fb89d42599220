"""taskiq with the list broker of taskiq-redis, its fastest: a message is gone from the server when it is taken."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .stage import Stage, in_windows


def _broker(stage: Stage) -> Any:
    return import_module("taskiq_redis").ListQueueBroker(stage.job.url, queue_name=stage.job.name)


async def produce(stage: Stage) -> None:
    broker = _broker(stage)

    async def handle(group: str, message_id: str, body: dict[str, Any]) -> None: ...

    task = broker.register_task(handle, "handle")
    await broker.startup()
    await in_windows(stage, lambda one: task.kiq(one.group, one.id, one.body))


async def consume(stage: Stage) -> None:
    broker = _broker(stage)

    async def handle(group: str, message_id: str, body: dict[str, Any]) -> None:
        stage.note(group, message_id)

    broker.register_task(handle, "handle")
    run_receiver_task = import_module("taskiq.api").run_receiver_task
    concurrency = stage.job.setting["concurrency"]
    stage.begin()
    await run_receiver_task(broker, max_async_tasks=concurrency, max_prefetch=concurrency, run_startup=True)
