"""sequencer: worker slots, the single slot, and both clients. It uses what older versions have as well."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import sequencer
from sequencer import Sequencer

from .stage import Stage

QUEUE = "async"


def _queue(stage: Stage) -> Sequencer:
    tree = stage.job.setting.get("tree", "")
    if not sequencer.__file__.startswith(tree):
        raise SystemExit(f"{sequencer.__file__} is not of {tree}")
    queue = Sequencer(QUEUE, stage.job.url)
    queue.connect()
    return queue


def consume(stage: Stage) -> None:
    """Setting: `is_async`, `concurrency` (none: the single slot) and `sleep_s`."""
    note, setting, has_work = stage.note, stage.job.setting, bool(stage.job.setting.get("sleep_s"))

    async def wait(message: Any) -> None:
        await stage.handle(message.group[0], message.id)

    async def do_nothing(message: Any) -> None:
        note(message.group[0], message.id)

    def block(message: Any) -> None:
        stage.handle_in_thread(message.group[0], message.id)

    def return_at_once(message: Any) -> None:
        note(message.group[0], message.id)

    coroutine, function = (wait, block) if has_work else (do_nothing, return_at_once)
    more = {"concurrency": setting["concurrency"]} if "concurrency" in setting else {}
    with _queue(stage) as queue:
        stage.begin()
        queue.consume(coroutine if setting["is_async"] else function, **more)


def produce(stage: Stage) -> None:
    """Setting: `tasks` that append at once, or a `pace` in appends a second, or `is_single`; else in batches."""
    setting, messages = stage.job.setting, stage.job.planned()
    if "tasks" in setting:
        asyncio.run(_in_tasks(stage, setting["tasks"]))
        return
    with _queue(stage) as queue:
        stage.begin()
        if "pace" in setting:
            for count, one in enumerate(messages):
                time.sleep(max(0.0, stage.began + count / setting["pace"] - time.monotonic()))
                stage.note(one.group, one.id)
                queue.append(one.body, [one.group], id=one.id)
        elif setting.get("is_single"):
            for one in messages:
                queue.append(one.body, [one.group], id=one.id)
        else:
            queue.append_many([{"group": [one.group], "id": one.id, "body": one.body} for one in messages])
        stage.end()


async def _in_tasks(stage: Stage, tasks: int) -> None:
    left = iter(stage.job.planned())
    async with sequencer.AsyncSequencer(QUEUE, stage.job.url) as queue:
        await queue.connect()

        async def work() -> None:
            for one in left:
                await queue.append(one.body, [one.group], id=one.id)

        stage.begin()
        await asyncio.gather(*(work() for _ in range(tasks)))
        stage.end()
