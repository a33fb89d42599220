"""No queue at all: as many tasks, or threads, take the same messages from a list. Nothing can be faster."""

from __future__ import annotations

import asyncio
import threading

from .stage import Stage


def consume(stage: Stage) -> None:
    """Raises nothing: the watcher ends this process."""
    messages, concurrency = iter(stage.job.planned()), stage.job.setting["concurrency"]

    async def work() -> None:
        for one in messages:
            await stage.handle(one.group, one.id)

    async def work_all() -> None:
        await asyncio.gather(*(work() for _ in range(concurrency)))

    def block() -> None:
        while one := next(messages, None):
            stage.handle_in_thread(one.group, one.id)

    stage.begin()
    if stage.job.setting["is_async"]:
        asyncio.run(work_all())
    else:
        for _ in range(concurrency):
            threading.Thread(target=block, daemon=True).start()
