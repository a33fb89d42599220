"""The processes of sequencer, of own Streams and of the seed's algorithm: `python -m ... own SYSTEM`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import islice
from typing import Any

from sequencer.client import Sequencer
from sequencer.values.message import Message as Delivered

from ..peers.workers.player import PlayerStage, play
from ..peers.workers.stage import Message
from .seed import Seed
from .streams import Streams

QUEUE, BATCH = "usual", 200


def batches(messages: list[Message]) -> Iterator[list[Message]]:
    """Some at a time, as `append_many` sends them."""
    rest = iter(messages)
    while some := list(islice(rest, BATCH)):
        yield some


class OfSequencer:
    """Default options, but for what a trial names: `lease`, and options of the queue."""

    @staticmethod
    def produce(stage: PlayerStage) -> None:
        job, messages = stage.job, stage.job.planned()
        with Sequencer(QUEUE, job.url, namespace=job.name, **job.setting.get("queue", {})) as queue:
            queue.connect()
            stage.begin()
            if job.batch:
                queue.append_many(
                    [{"group": [m.group], "id": m.id, "score": m.body["score"], "body": m.body} for m in messages]
                )
            else:
                for m in messages:
                    queue.append(m.body, [m.group], id=m.id, score=m.body["score"])
            stage.end()

    @staticmethod
    def consume(stage: PlayerStage) -> None:
        note, setting = stage.note, stage.job.setting
        consuming: dict[str, Any] = {"lease": setting["lock"]} if "lock" in setting else {}

        def handle(message: Delivered) -> None:
            note(message.group[0], message.id)

        with Sequencer(QUEUE, stage.job.url, namespace=stage.job.name, **setting.get("queue", {})) as queue:
            queue.connect()
            stage.begin()
            queue.consume(handle, **consuming)


class OfStreams:
    """It has no scores: the order is that of arrival."""

    @staticmethod
    def produce(stage: PlayerStage) -> None:
        job, messages = stage.job, stage.job.planned()
        queue = Streams(job.url, job.name)
        queue.redis.ping()
        stage.begin()
        for some in batches(messages) if job.batch else ([message] for message in messages):
            queue.append_many((m.group, m.id, m.body) for m in some)
        stage.end()

    @staticmethod
    def consume(stage: PlayerStage) -> None:
        part, setting = stage.job.part, stage.job.setting
        queue = Streams(part.url, part.name, part.owner, setting.get("consumers", 1), setting.get("lock", 10.0))
        queue.redis.ping()
        stage.begin()
        queue.consume(lambda group, message_id, _body: stage.note(group, message_id))


class OfSeed:
    """Scores as the plan says: equal ones come out by the bytes of their ids."""

    @staticmethod
    def produce(stage: PlayerStage) -> None:
        job, messages = stage.job, stage.job.planned()
        queue = Seed(job.url, job.name, lock_s=job.setting.get("lock", 10.0))
        queue.redis.ping()
        stage.begin()
        if job.batch:
            for some in batches(messages):
                queue.append_many((m.group, m.id, m.body["score"], m.body) for m in some)
        else:
            for m in messages:
                queue.append(m.group, m.id, m.body["score"], m.body)
        stage.end()

    @staticmethod
    def consume(stage: PlayerStage) -> None:
        part = stage.job.part
        queue = Seed(part.url, part.name, part.owner, part.setting.get("lock", 10.0))
        queue.redis.ping()
        stage.begin()
        queue.consume(lambda group, message_id, _body: stage.note(group, message_id))


if __name__ == "__main__":
    play({"sequencer": OfSequencer, "streams": OfStreams, "seed": OfSeed}[sys.argv[1]])
