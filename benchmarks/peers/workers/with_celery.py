"""celery on Redis, without results, in one process (the solo pool)."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .stage import Stage


def _app(stage: Stage) -> tuple[Any, Any]:
    app = import_module("celery").Celery("peer", broker=stage.job.url)
    app.conf.update(
        task_ignore_result=True,
        task_default_queue=stage.job.name,
        worker_prefetch_multiplier=stage.job.setting.get("prefetch", 4),
        broker_connection_retry_on_startup=True,
        **stage.job.setting.get("conf", {}),
    )

    def handle(group: str, message_id: str, body: dict[str, Any]) -> None:
        stage.note(group, message_id)

    return app, app.task(handle, name="handle")


def produce(stage: Stage) -> None:
    app, handle = _app(stage)
    messages = stage.job.planned()
    with app.connection_for_write() as connection:
        connection.ensure_connection(max_retries=3)
    stage.begin()
    for message in messages:
        handle.apply_async((message.group, message.id, message.body), task_id=message.id)
    stage.end()


def consume(stage: Stage) -> None:
    app, _ = _app(stage)
    worker = app.Worker(
        pool="solo", concurrency=1, loglevel="ERROR", without_gossip=True, without_mingle=True, without_heartbeat=True
    )
    stage.begin()
    worker.start()
