"""rq, its SimpleWorker: the ordinary one forks a process for each job. Results are not kept."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .stage import Stage, windows

_stages: list[Stage] = []
"""rq calls a handler by its name, so that it can be given nothing: the stage of this process."""


def handle(group: str, message_id: str, _body: dict[str, Any]) -> None:
    _stages[0].note(group, message_id)


def _queue(stage: Stage) -> Any:
    client = import_module("redis").Redis(host=stage.job.host, port=stage.job.port)
    return import_module("rq").Queue(stage.job.name, connection=client)


def produce(stage: Stage) -> None:
    queue, messages, name = _queue(stage), stage.job.planned(), f"{__name__}.handle"
    queue.connection.ping()
    stage.begin()
    if stage.job.batch:
        for window in windows(messages, stage.job.setting["window"]):
            queue.enqueue_many(
                [queue.prepare_data(name, (one.group, one.id, one.body), result_ttl=0, job_id=one.id) for one in window]
            )
    else:
        for one in messages:
            queue.enqueue(name, one.group, one.id, one.body, result_ttl=0, job_id=one.id)
    stage.end()


def consume(stage: Stage) -> None:
    _stages.append(stage)
    queue = _queue(stage)
    worker = import_module("rq").SimpleWorker([queue], connection=queue.connection)
    stage.begin()
    worker.work(logging_level="ERROR", burst=stage.job.setting.get("burst", True))
