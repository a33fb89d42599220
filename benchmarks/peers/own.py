"""The processes of sequencer and of the naive version, as the peers' are in `workers`: `python -m ... own SYSTEM`."""

from __future__ import annotations

import sys

from sequencer.client import Sequencer
from sequencer.values.message import Message as Delivered

from ..load.history import Row
from ..load.member import scores_ms
from ..load.naive import NaiveQueue
from ..load.workload import Planned
from .workers.stage import Stage, play

QUEUE = "peers"


class OfSequencer:
    """Default options. Scores are the time in ms, so that many are equal."""

    @staticmethod
    def produce(stage: Stage) -> None:
        messages = stage.job.planned()
        with Sequencer(QUEUE, stage.job.url, namespace=stage.job.name) as queue:
            queue.connect()
            stage.begin()
            if stage.job.batch:
                # A list, made while the time runs: of an iterator no chunk is read while the server stores one.
                queue.append_many(
                    [
                        {"group": [one.group], "id": one.id, "score": score, "body": one.body}
                        for one, score in zip(messages, scores_ms(), strict=False)
                    ]
                )
            else:
                for one, score in zip(messages, scores_ms(), strict=False):
                    queue.append(one.body, [one.group], id=one.id, score=score)
            stage.end()

    @staticmethod
    def consume(stage: Stage) -> None:
        note = stage.note

        def handle(message: Delivered) -> None:
            note(message.group[0], message.id)

        with Sequencer(QUEUE, stage.job.url, namespace=stage.job.name) as queue:
            queue.connect()
            stage.begin()
            queue.consume(handle)


class OfNaive:
    """Each message a step at a time. Scores are the producer's numbers: equal ones would make it fail for order."""

    @staticmethod
    def produce(stage: Stage) -> None:
        messages = stage.job.planned()
        queue = NaiveQueue(stage.job.url, stage.job.name)
        queue.connect()
        stage.begin()
        queue.append_all((Planned(one.group, one.id, one.number), one.number, one.body) for one in messages)
        stage.end()

    @staticmethod
    def consume(stage: Stage) -> None:
        queue = NaiveQueue(stage.job.url, stage.job.name)
        queue.connect()

        def record(row: Row) -> None:
            stage.note(row[0], row[1])

        stage.begin()
        queue.consume(record, "peer", lambda: False)


if __name__ == "__main__":
    play({"sequencer": OfSequencer, "naive": OfNaive}[sys.argv[1]])
