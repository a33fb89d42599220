"""FastStream: a subscriber of a stream without a consumer group, its fastest. A message is never acknowledged."""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import Any

from .stage import Stage, in_windows


async def produce(stage: Stage) -> None:
    broker = import_module("faststream.redis").RedisBroker(stage.job.url, logger=None)
    await broker.connect()
    await in_windows(stage, lambda one: broker.publish([one.group, one.id, one.body], stream=stage.job.name))


async def consume(stage: Stage) -> None:
    library, concurrency = import_module("faststream.redis"), stage.job.setting["concurrency"]
    broker = library.RedisBroker(stage.job.url, logger=None)
    stream = library.StreamSub(stage.job.name, last_id="0", max_records=concurrency)

    async def handle(body: list[Any]) -> None:
        await stage.handle(body[0], body[1])

    broker.subscriber(stream=stream, max_workers=concurrency)(handle)
    stage.begin()
    await broker.start()
    await asyncio.Event().wait()
