"""The pool of redis.asyncio: the commands of our own appends, made before, sent by as many tasks."""

from __future__ import annotations

import asyncio
from hashlib import sha1

import redis
import redis.asyncio

from sequencer import Sequencer

from .stage import Stage


async def produce(stage: Stage) -> None:
    messages, tasks = stage.job.planned(), stage.job.setting["tasks"]
    client, plain = (
        redis.asyncio.Redis.from_url(stage.job.url, max_connections=3000),
        redis.Redis.from_url(stage.job.url),
    )
    commands = []
    with Sequencer("async", stage.job.url) as queue:
        queue.connect()
        pipeline = plain.pipeline(transaction=False)
        for one in messages:
            queue.append(one.body, [one.group], id=one.id, pipeline=pipeline)
        for words, _ in pipeline.command_stack:
            source = words[1] if isinstance(words[1], bytes) else words[1].encode()
            commands.append(("EVALSHA", sha1(source).hexdigest(), *words[2:]))
        plain.script_load(source)

    left = iter(commands)

    async def work() -> None:
        for words in left:
            await client.execute_command(*words)  # type: ignore[no-untyped-call]

    stage.begin()
    await asyncio.gather(*(work() for _ in range(tasks)))
    stage.end()
