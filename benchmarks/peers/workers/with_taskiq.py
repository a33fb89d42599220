"""taskiq with a broker of taskiq-redis: its list, where a message is gone when it is taken, or its stream."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .stage import Stage, in_windows


def _broker(stage: Stage) -> Any:
    brokers, concurrency = import_module("taskiq_redis"), stage.job.setting.get("concurrency", 100)
    if stage.job.setting.get("is_stream"):
        return brokers.RedisStreamBroker(
            stage.job.url, queue_name=stage.job.name, consumer_id="0", xread_count=concurrency
        )
    return brokers.ListQueueBroker(stage.job.url, queue_name=stage.job.name)


async def produce(stage: Stage) -> None:
    broker = _broker(stage)

    async def handle(group: str, message_id: str, body: dict[str, Any]) -> None: ...

    task = broker.register_task(handle, "handle")
    await broker.startup()
    await in_windows(stage, lambda one: task.kiq(one.group, one.id, one.body))


async def consume(stage: Stage) -> None:
    broker = _broker(stage)

    async def handle(group: str, message_id: str, body: dict[str, Any]) -> None:
        await stage.handle(group, message_id)

    broker.register_task(handle, "handle")
    run_receiver_task = import_module("taskiq.api").run_receiver_task
    concurrency = stage.job.setting["concurrency"]
    stage.begin()
    await run_receiver_task(broker, max_async_tasks=concurrency, max_prefetch=concurrency, run_startup=True)
