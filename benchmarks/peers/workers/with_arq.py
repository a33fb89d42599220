"""arq: a job is a key and an entry of a sorted set. Its results are not kept."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .stage import Stage, in_windows


def _settings(stage: Stage) -> Any:
    return import_module("arq.connections").RedisSettings(host=stage.job.host, port=stage.job.port)


async def produce(stage: Stage) -> None:
    pool = await import_module("arq").create_pool(_settings(stage))
    await in_windows(stage, lambda one: pool.enqueue_job("handle", one.group, one.id, one.body, _job_id=one.id))


async def consume(stage: Stage) -> None:
    async def handle(_context: Any, group: str, message_id: str, _body: Any) -> None:
        stage.note(group, message_id)

    arq = import_module("arq.worker")
    worker = arq.Worker(
        [arq.func(handle, name="handle", keep_result=0)],
        redis_settings=_settings(stage),
        handle_signals=False,
        poll_delay=0.01,
        max_jobs=stage.job.setting["concurrency"],
    )
    stage.begin()
    await worker.async_run()
