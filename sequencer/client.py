"""Sequencer: the blocking client. Appends messages, consumes them, and looks at the queue."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from types import TracebackType
from typing import Any, Literal, TypeVar
from uuid import UUID

from . import calls, monitor
from .appender import CHUNK, Appender
from .codec import decode_failure, decode_record, raw_message
from .connection import Endpoint
from .consumer import Consumer, owner_name, stop_on_signals
from .drain import Handler
from .errors import (
    ConfigurationError,
    GroupBusy,
    GroupNotFound,
    HandlerNotFound,
    NotParked,
)
from .items import ItemMaker
from .keys import decode_group, encode_group
from .lease import Lease
from .message import BatchReceipt, ConsumeSummary, GroupInfo, GroupState, Message, QueueInfo, Receipt
from .options import ClaimLimits, ConsumerOptions, QueueOptions, field_names
from .place import Place

signal_log = logging.getLogger("sequencer.signals")
"""Says what a signal did and what the next one will do; the supervisor silences it in its consumers."""

Group = Sequence[str | int | UUID] | str | int | UUID
Score = float | int | datetime
HandlerT = TypeVar("HandlerT", bound=Callable[[Message], Any])


class Sequencer:
    """One queue: `append` messages of many groups, `consume` each group in order.

    `redis` is a URL (`redis:// rediss:// unix:// valkey://`), a redis-py client, or None: then `SEQUENCER_REDIS`, else
    the embedded server, which is started when it is first needed. Nothing connects before that. May be shared by
    threads, and survives a fork. Raises ConfigurationError for a wrong option; see QueueOptions for each of them.
    """

    def __init__(
        self,
        queue: str,
        redis: Any = None,
        *,
        namespace: str = "sequencer",
        group_by: Sequence[str] | None = None,
        id_by: str | None = None,
        score_by: str | None = None,
        lanes: int | None = None,
        max_attempts: int = 5,
        backoff: float = 0.5,
        backoff_cap: float = 60.0,
        max_body_bytes: int = 1024 * 1024,
    ) -> None:
        self.options = QueueOptions(
            queue=queue,
            namespace=namespace,
            group_by=field_names(group_by),
            id_by=id_by,
            score_by=score_by,
            lanes=lanes,
            max_attempts=max_attempts,
            backoff_s=backoff,
            backoff_cap_s=backoff_cap,
            max_body_bytes=max_body_bytes,
        )
        self._place = Place(self.options, redis)
        self._items = ItemMaker(self.options)
        self._appender = Appender(self._place, self._items)
        self._handler: Handler | None = None
        self._rates = monitor.Rates()

    def __repr__(self) -> str:
        return f"<Sequencer {self.options.queue} on {self._place.name}>"

    def __enter__(self) -> Sequencer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def queue(self) -> str:
        """The queue's name."""
        return self.options.queue

    @property
    def endpoint(self) -> Endpoint:
        """Where the queue is; starts the embedded server when no other was given."""
        return self._place.endpoint

    def connect(self) -> None:
        """Connect and check the server and the queue's lanes now rather than at first use.

        Raises ServerUnavailable, ServerNotUsable, or ConfigurationError when `lanes` differs from the server's number.
        """
        self._place.lanes()

    def close(self) -> None:
        """Close the connections. The client may be used again: it then connects anew. A server keeps running."""
        self._place.close()

    # -- appending --------------------------------------------------------------------------------------------

    def append(
        self,
        body: Any,
        group: Group | None = None,
        *,
        id: str | int | None = None,
        score: Score | None = None,
        headers: Mapping[str, str] | None = None,
        pipeline: Any = None,
    ) -> Receipt:
        """Add one message to its group and return its id, stamp, and whether it was there already.

        `group`, `id` and `score` come out of the body where `group_by`, `id_by`, `score_by` are set and they are not
        given. Without a score the server's time of arrival, in seconds, is the score. Without an id one is made before
        the first try, so that a repeat after a lost connection adds nothing while the message is pending. The same id
        with the same content (as JSON bytes), while it is pending, is a duplicate; with other content IdConflict is
        raised.

        `pipeline`: a redis-py pipeline of the same server; the append joins it and is sent by its `execute()`, where a
        conflict shows as an error reply (`IDCONFLICT`). The receipt then has no stamp.

        Raises InvalidMessage (InvalidGroup, InvalidId, InvalidScore, InvalidBody) with nothing sent, IdConflict,
        QueueFull, OutcomeUnknown when the connection failed after sending, ServerUnavailable when it failed before.
        """
        item = self._items.make(body, group, id, score, headers)
        if pipeline is not None:
            return self._appender.append_to(pipeline, item)
        return self._appender.append(item)

    def append_many(
        self, items: Iterable[Any], *, on_refused: Literal["stop", "skip"] = "stop", chunk: int = CHUNK
    ) -> BatchReceipt:
        """Add any number of messages, streamed: one round trip for each `chunk`, and each chunk stored as a whole.

        An item is a body when the queue has `group_by`; else a mapping with the arguments of `append`: `body`, `group`,
        and as needed `id`, `score`, `headers`. With on_refused="stop", a chunk that holds an item which can't be stored
        is not stored at all, and BatchRefused says which and why and how many messages of earlier chunks were stored;
        with "skip" the others are stored and the receipt lists the refused.

        Raises BatchRefused, OutcomeUnknown, QueueFull, ServerUnavailable; repeating is harmless where items have ids.
        """
        return self._appender.append_many(items, on_refused, chunk)

    # -- consuming --------------------------------------------------------------------------------------------

    def handler(self, function: HandlerT) -> HandlerT:
        """Register the function that handles this queue's messages (a decorator). It gets one Message."""
        self._handler = _checked_handler(function)
        return function

    @property
    def registered_handler(self) -> Handler | None:
        """The function given to `handler`, if any."""
        return self._handler

    def consume(
        self,
        handler: Handler | None = None,
        *,
        lease: float = 15.0,
        until_empty: bool = False,
        max_messages: int | None = None,
        max_age: float | None = None,
        limits: ClaimLimits | None = None,
        on_start: Callable[[Consumer], None] | None = None,
    ) -> ConsumeSummary:
        """Run the handler for one message at a time, in this process, until stopped.

        `lease` and `max_age` in seconds. SIGINT or SIGTERM stops after the message in hand; a second one releases it
        and stops now (in the main thread; elsewhere `on_start` gets the consumer, whose `stop()` any thread may call).
        Returns why it ended and what it did. Raises HandlerNotFound, ConfigurationError, ServerNotUsable, DataError.
        A server that goes away is waited for.
        """
        function = self._handler if handler is None else _checked_handler(handler)
        if function is None:
            raise HandlerNotFound(
                f"queue {self.queue!r} has no handler; pass one to consume() or register it with @seq.handler"
            )
        options = ConsumerOptions(
            lease_s=lease,
            until_empty=until_empty,
            max_messages=max_messages,
            max_age_s=max_age,
            limits=limits or ClaimLimits(),
        )
        consumer = Consumer(self._place.endpoint, self._place.lanes(), self.options, options, function)
        if on_start:
            on_start(consumer)
        with stop_on_signals(consumer, signal_log.warning):
            return consumer.run()

    def claim(self, *, groups: int = 1, messages: int = 100, lease: float = 15.0) -> Lease:
        """Lease up to `groups` due groups for your own loop; empty (false) when nothing is due.

        Use it as `with seq.claim() as lease: for message in lease: ...; lease.ack(message)`. Renewing is up to you:
        `lease.renew()`. Raises ConfigurationError, ServerError.
        """
        options = ConsumerOptions(lease_s=lease, limits=ClaimLimits(groups, messages))
        return Lease.claim(self._place.connect(), self._place.lanes(), self.options, options, owner_name())

    # -- stuck groups -----------------------------------------------------------------------------------------

    def resume(self, group: Group) -> bool:
        """Let a parked or waiting group go on now, with fresh attempts. False when it was due already.

        Raises GroupNotFound, or GroupBusy when a consumer holds it.
        """
        return self._resume(encode_group(group), skip=False)[0].status == "resumed"

    def skip(self, group: Group) -> Message:
        """Remove the failed head of a group and let the group go on; returns the removed message, the only copy of it.

        Raises GroupNotFound, NotParked when its head did not fail, GroupBusy when a consumer holds it.
        """
        key = encode_group(group)
        done, member = self._resume(key, skip=True)
        rest = (member, done.score or "nan", done.record, decode_group(key), 0, self.queue)
        try:
            return decode_record(*rest)
        except ValueError:
            return raw_message(*rest)

    def _resume(self, group: str, *, skip: bool) -> tuple[calls.Resumed, str]:
        keys = self._place.keys_of(group, register=False)
        with self._place.link() as link:
            for _ in range(5):
                record = link.command("HGET", keys.failures, group) or b""
                member = decode_failure(record)[1] if record else ""
                if record and not member:  # a failure without its message: it is about the head
                    heads = link.command("ZRANGE", keys.order(group), 0, 0)
                    member = heads[0].decode("utf-8", "surrogateescape") if heads else ""
                done = link.run_one(calls.resume(keys, group, record, member, skip=skip))
                if done.status != "changed":
                    break
        name = list(decode_group(group))
        if done.status == "missing":
            raise GroupNotFound(f"group {name} has no messages in queue {self.queue!r}")
        if done.status in ("leased", "changed"):
            raise GroupBusy(f"group {name} is held by a consumer just now; look again, and repeat if still needed")
        if done.status == "unfailed":
            raise NotParked(f"group {name} has no failed head to skip: it is not parked, nor waiting after a failure")
        return done, member

    # -- views ------------------------------------------------------------------------------------------------

    def info(self) -> QueueInfo:
        """Backlog, lag, groups by state, totals; rates since the last `info()` of this client. Raises ServerError."""
        with self._view() as view:
            return self._rates.add(view.info())

    def groups(self, state: GroupState | None = None, *, limit: int = 1000) -> list[GroupInfo]:
        """Groups, the longest due first, at most `limit`; only those in `state` if given. Raises ConfigurationError."""
        with self._view() as view:
            return view.groups(state, limit)

    def parked(self, *, limit: int = 1000) -> list[GroupInfo]:
        """Parked groups, each with the failure of its head."""
        return self.groups("parked", limit=limit)

    def peek(self, group: Group, *, limit: int = 10) -> list[Message]:
        """The next messages of a group, in order; changes nothing. Empty when the group has none."""
        key = encode_group(group)
        with self._view() as view:
            return view.peek(key, limit)

    @contextmanager
    def _view(self) -> Iterator[monitor.View]:
        lanes = self._place.lanes(register=False)
        with self._place.link() as link:
            yield monitor.View(link, lanes, self.options)


def _checked_handler(function: Any) -> Handler:
    if not callable(function):
        raise HandlerNotFound(f"handler {function!r} is not callable")
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__):
        raise ConfigurationError(
            f"handler {function!r} is a coroutine function; this client calls plain functions only"
        )
    handler: Handler = function
    return handler
