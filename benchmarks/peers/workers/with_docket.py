"""docket: tasks in a stream, acknowledged when they are done. Results are not kept."""

from __future__ import annotations

from datetime import timedelta
from importlib import import_module
from typing import Any

from .stage import Stage, in_windows


def _docket(stage: Stage) -> tuple[Any, Any]:
    # Each task at once takes a connection: the driver's own limit is 100.
    url = f"{stage.job.url}?max_connections=3000"
    docket = import_module("docket").Docket(stage.job.name, url, execution_ttl=timedelta(0))

    async def handle(group: str, message_id: str, body: dict[str, Any]) -> None:
        await stage.handle(group, message_id)

    docket.register(handle)
    return docket, handle


async def produce(stage: Stage) -> None:
    made, handle = _docket(stage)
    async with made as docket:
        await in_windows(stage, lambda one: docket.add(handle, key=one.id)(one.group, one.id, one.body))


async def consume(stage: Stage) -> None:
    made, _ = _docket(stage)
    async with (
        made as docket,
        import_module("docket").Worker(docket, concurrency=stage.job.setting["concurrency"]) as worker,
    ):
        stage.begin()
        await worker.run_forever()
