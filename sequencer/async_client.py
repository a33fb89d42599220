"""AsyncSequencer: the client for an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any, Unpack

from . import calls
from .client import Client, Sequencer
from .consume.registered import AnyHandler
from .consume.slots import ManySlots, SlotConsumer
from .doctor.diagnose import diagnose
from .errors import ServerUnavailable
from .lease import AsyncLease, LeaseSession
from .net.awaited import AwaitedNet
from .net.faces import Awaited
from .queue import views
from .queue.append import receipt_of, refuse_unknown
from .server import start_embedded
from .settings.body_fields import BodyFields
from .settings.option import shows
from .settings.options import (
    ClaimLimits,
    ConsumerOptions,
    ConsumerSettings,
    QueueOptions,
    QueueSettings,
    consumer_options,
    settings_of,
)
from .settings.policy import Policy
from .store.group import shard_of
from .store.item import Group, Id, Score
from .texts.events import event
from .texts.findings import Finding
from .values.checks import seconds_of
from .values.durations import Duration
from .values.message import ConsumeSummary, Receipt


class AsyncSequencer(Client, Awaited):
    """One queue, for an event loop: as Sequencer, with the same options, and every method is awaited.

    All tasks of a loop share one connection. A task that is cancelled while it appends leaves it open whether the
    message was stored: append again with the same id. `append` takes no pipeline.
    """

    _net: AwaitedNet

    @shows(QueueSettings, QueueOptions, Policy)
    def __init__(
        self, queue: str, redis: Any = None, *, namespace: str = "sequencer", **settings: Unpack[QueueSettings]
    ) -> None:
        self._net = AwaitedNet(redis, start_embedded)
        self._set_up(queue, namespace, settings)

    async def __aenter__(self) -> AsyncSequencer:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def connect(self) -> None:
        await self._session.shards(register=True)

    async def close(self) -> None:
        """Close the running loop's connection. The client may be used again: it then connects again."""
        await self._net.close()
        self._emitter.close()

    async def append(
        self,
        body: Any,
        group: Group | None = None,
        *,
        id: Id | None = None,
        score: Score | None = None,
        headers: Mapping[str, str] | None = None,
        delay: Duration | None = None,
        at: Score | None = None,
        done: Mapping[str, Any] | None = None,
        replace: bool = False,
        backlog: bool = False,
    ) -> Receipt:
        session, given = self._session, (body, group, id, score, headers, delay, at, done)
        if (is_sequence := session.known_sequence()) is None:  # what breaks a rule is said without a server
            await session.check_first(session.items.check, session.items.make, *given)
            is_sequence = (await session.policy("append")).sequence
        item = session.items.make(*given, is_sequence=is_sequence)
        shards = session.known_shards() or await session.shards("append")
        keys, wait = shards[shard_of(item.group, len(shards))], session.options.wait
        call = calls.append(keys, [item], on_conflict="replace" if replace else "none", backlog=backlog)
        try:
            answer = await self._net.ask(call, wait=wait)
        except ServerUnavailable as error:
            refuse_unknown(item.id, error, replaces=replace)
            raise
        return receipt_of(item, answer.value, answer.confirmed, wait, replace=replace)

    async def claim(
        self, *, group: Group | None = None, groups: int = 1, messages: int = 100, lease: Duration = 15.0
    ) -> AsyncLease:
        options = consumer_options(lease=lease, limits=ClaimLimits(groups, messages))
        return AsyncLease(await LeaseSession.claim(self._session, options, self._emitter, group))

    @property
    def policy(self) -> Coroutine[Any, Any, Policy]:
        """As of Sequencer: `await seq.policy`."""
        return views.policy(self._session)

    @property
    def fields(self) -> Coroutine[Any, Any, BodyFields]:
        """As of Sequencer: `await seq.fields`."""
        return self._session.fresh_fields()

    async def doctor(self, *, repair: bool = False) -> list[Finding]:
        names = self.options.namespace, self.options.queue
        return await asyncio.to_thread(lambda: diagnose(self.endpoint, *names, repair=repair, for_program=True))

    # -- consuming --------------------------------------------------------------------------------------------

    @shows(ConsumerSettings, ConsumerOptions)
    async def consume(
        self,
        handler: AnyHandler | None = None,
        *,
        on_start: Callable[[ManySlots[Any]], None] | None = None,
        **options: Unpack[ConsumerSettings],
    ) -> ConsumeSummary:
        """Run the handler for messages of many groups at once, beside the other tasks of the running loop.

        As `Sequencer.consume`, but that signals are the program's own: a cancel of the task that awaits this interrupts
        the handlers, releases their messages, and is raised when that is done. Coroutine handlers run on this loop, at
        most 100 at once unless `concurrency` is given; plain functions run in threads, one unless it is given.
        """
        consumer = await self._consumer(handler, options)
        if on_start:
            on_start(consumer)
        summary: ConsumeSummary = await consumer.run_here()
        return summary

    @shows(ConsumerSettings, ConsumerOptions)
    @asynccontextmanager
    async def consuming(
        self,
        handler: AnyHandler | None = None,
        *,
        grace: Duration | None = 10.0,
        **options: Unpack[ConsumerSettings],
    ) -> AsyncIterator[ManySlots[Any]]:
        """Consume in the background for the length of an `async with` block, as in the lifespan of a web application.

        Leaving the block takes nothing new, and waits for the handlers that run; after `grace` seconds, or when the
        task is cancelled meanwhile, it interrupts them and releases their messages. None: they take as long as they
        need. An error that ends the consumer early is logged, is the consumer's `error` from then on, and is raised
        when the block is left. Options and errors as of `consume`.
        """
        grace_s = None if grace is None else seconds_of("grace", grace)
        consumer = await self._consumer(handler, options)

        def note_end(ended: asyncio.Task[ConsumeSummary]) -> None:
            if not ended.cancelled() and (error := ended.exception()):
                consumer.error = error
                self._emitter.emit(event("consumer failed", self.queue, namespace=self.options.namespace, error=error))

        task = asyncio.create_task(consumer.run_here())
        task.add_done_callback(note_end)
        try:
            yield consumer
        finally:
            consumer.stop()
            try:
                await asyncio.wait([task], timeout=grace_s)
            finally:
                if not task.done():
                    consumer.interrupt()
                await consumer.until(task)

    async def _consumer(self, handler: AnyHandler | None, settings: ConsumerSettings) -> Any:
        options = consumer_options(**settings)

        def new() -> Any:
            with blocking_client(self) as seq:
                return seq._consumer(handler, options, SlotConsumer)

        return await asyncio.to_thread(new)

    for _method in (connect, append, claim, doctor):
        _method.__doc__ = getattr(Sequencer, _method.__name__).__doc__
    del _method


def blocking_client(seq: AsyncSequencer) -> Sequencer:
    """One of the same queue, with what is registered with this one."""
    made = Sequencer(seq.queue, seq._net.given, namespace=seq.options.namespace, **settings_of(seq.options))
    made._emitter = seq._emitter
    made.register_as(seq)
    return made
