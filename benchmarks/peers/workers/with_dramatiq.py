"""dramatiq on Redis: threads of one process, without results."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .stage import Stage


def _actor(stage: Stage) -> tuple[Any, Any]:
    dramatiq = import_module("dramatiq")
    broker = import_module("dramatiq.brokers.redis").RedisBroker(url=stage.job.url, namespace=stage.job.name)
    dramatiq.set_broker(broker)

    def handle(group: str, message_id: str, _body: dict[str, Any]) -> None:
        stage.note(group, message_id)

    return broker, dramatiq.actor(handle, actor_name="handle", broker=broker)


def produce(stage: Stage) -> None:
    broker, actor = _actor(stage)
    messages = stage.job.planned()
    broker.client.ping()
    stage.begin()
    for message in messages:
        actor.send(message.group, message.id, message.body)
    stage.end()


def consume(stage: Stage) -> None:
    broker, _ = _actor(stage)
    worker = import_module("dramatiq").Worker(broker, worker_threads=stage.job.setting["threads"])
    stage.begin()
    worker.start()
