"""Sequencer: the blocking client. Appends messages, consumes them, and looks at the queue."""

from __future__ import annotations

import inspect
import itertools
import logging
import os
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Literal, TypeVar
from uuid import UUID

from . import calls, monitor
from .codec import decode_failure, decode_record, encode_envelope, encode_id, encode_score, raw_message
from .connection import Endpoint, check_server, parse_info, server_url_from_environment
from .consumer import Consumer, owner_name, stop_on_signals
from .drain import Handler
from .errors import (
    BatchRefused,
    ConfigurationError,
    GroupBusy,
    GroupNotFound,
    HandlerNotFound,
    IdConflict,
    InvalidBody,
    InvalidGroup,
    InvalidId,
    InvalidMessage,
    InvalidScore,
    NotParked,
    OutcomeUnknown,
    ServerUnavailable,
)
from .keys import LaneKeys, decode_group, encode_group, lane_keys, lane_of, registry_key
from .lease import Lease
from .message import BatchReceipt, ConsumeSummary, GroupInfo, GroupState, Message, QueueInfo, Receipt, Refused
from .options import ClaimLimits, ConsumerOptions, QueueOptions, field_names
from .scripts import Link, Links, eval_command

log = logging.getLogger("sequencer")

Group = Sequence[str | int | UUID] | str | int | UUID
Score = float | int | datetime
HandlerT = TypeVar("HandlerT", bound=Callable[[Message], Any])

CHUNK = 500
"""Messages a round trip in `append_many`: about 3 ms of the server's time."""


class Sequencer:
    """One queue: `append` messages of many groups, `consume` each group in order.

    `redis` is a URL (`redis:// rediss:// unix:// valkey://`), a redis-py client, or None: then `SEQUENCER_REDIS`, else
    the embedded server, which is started when it is first needed. Nothing connects before that. May be shared by threads,
    and survives a fork. Raises ConfigurationError for a wrong option; see QueueOptions for each of them.
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
        self._handler: Handler | None = None
        self._endpoint: Endpoint | None = None
        if redis is None:
            redis = server_url_from_environment()
        if isinstance(redis, str):
            self._endpoint = Endpoint.from_url(redis)
        elif redis is not None:
            self._endpoint = Endpoint.from_client(redis)
        self._links: Links | None = None
        self._lanes: list[LaneKeys] = []
        self._ready = threading.Lock()
        self._ids = _IdMaker()
        self._rates = monitor.Rates()

    def __repr__(self) -> str:
        place = self._endpoint.name if self._endpoint else "embedded server"
        return f"<Sequencer {self.options.queue} on {place}>"

    def __enter__(self) -> Sequencer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections. The client may be used again: it then connects anew. A server keeps running."""
        with self._ready:
            links, self._links = self._links, None
        if links:
            links.close()

    @property
    def queue(self) -> str:
        """The queue's name."""
        return self.options.queue

    # -- connecting -------------------------------------------------------------------------------------------

    def connect(self) -> None:
        """Connect and check the server and the queue's lanes now rather than at first use.

        Raises ServerUnavailable, ServerNotUsable, or ConfigurationError when `lanes` differs from the server's number.
        """
        with self._ready:
            if self._links is not None:
                return
            links = Links(self._find_endpoint())
            link = links.take()
            try:
                self._lanes = self._check(link)
            except BaseException:
                link.close()
                raise
            links.put(link)
            self._links = links

    def _find_endpoint(self) -> Endpoint:
        if self._endpoint is None:
            from .server import EmbeddedServer

            server = EmbeddedServer()
            server.start()
            log.info("no redis= and no SEQUENCER_REDIS: using the embedded server at %s", server.url)
            self._endpoint = Endpoint.from_url(server.url)
        return self._endpoint

    def _check(self, link: Link) -> list[LaneKeys]:
        options, key = self.options, registry_key(self.options.namespace)
        (info,) = link.commands([("INFO",)])
        check_server(parse_info(info.decode("utf-8", "replace")), link.endpoint.name)
        (known,) = link.commands([("HGET", key, options.queue)])
        if known is None:
            link.commands([("HSETNX", key, options.queue, options.lanes or 1)])
            (known,) = link.commands([("HGET", key, options.queue)])
        lanes = int(known)
        if options.lanes not in (None, lanes):
            raise ConfigurationError(
                f"queue {options.queue!r} has {lanes} lanes since its first use, lanes={options.lanes} was asked; "
                "leave lanes out, or use another queue name"
            )
        return [lane_keys(options.namespace, options.queue, lane) for lane in range(lanes)]

    @property
    def endpoint(self) -> Endpoint:
        """Where the queue is; starts the embedded server when no other was given."""
        self.connect()
        return self._find_endpoint()

    def _take(self) -> tuple[Links, Link]:
        links = self._links
        if links is None:
            self.connect()
            links = self._links
            assert links is not None
        return links, links.take()

    def _keys_of(self, group: str) -> LaneKeys:
        if not self._lanes:
            self.connect()
        return self._lanes[lane_of(group, len(self._lanes))]

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

        `group`, `id` and `score` come out of the body where `group_by`, `id_by`, `score_by` are set and they are not given.
        Without a score the server's time of arrival, in seconds, is the score. Without an id one is made before the first
        try, so that a repeat after a lost connection adds nothing. The same id with the same content, while it is pending, is
        a duplicate; with other content IdConflict is raised.

        `pipeline`: a redis-py pipeline of the same server; the append joins it and is sent by its `execute()`, where a
        conflict shows as an error reply (`IDCONFLICT`). The receipt then has no stamp.

        Raises InvalidMessage (InvalidGroup, InvalidId, InvalidScore, InvalidBody) with nothing sent, IdConflict, QueueFull,
        OutcomeUnknown when the connection failed after sending, ServerUnavailable when it failed before.
        """
        item = self._item(body, group, id, score, headers)
        keys = self._keys_of(item.group)
        if pipeline is not None:
            call = calls.append(keys, [item], on_conflict="error")
            pipeline.execute_command(*eval_command(call))
            return Receipt(item.id, None, None)
        links, link = self._take()
        try:
            mark = link.run_one(calls.append(keys, [item]))[0]
        except ServerUnavailable as error:
            if getattr(error, "maybe_sent", False):
                raise OutcomeUnknown(item.id, str(error)) from error
            raise
        finally:
            links.put(link)
        if mark.outcome == "conflict":
            raise IdConflict(item.id, decode_group(item.group))
        return Receipt(item.id, mark.stamp, mark.outcome == "duplicate")

    def append_many(
        self, items: Iterable[Any], *, on_refused: Literal["stop", "skip"] = "stop", chunk: int = CHUNK
    ) -> BatchReceipt:
        """Add any number of messages, streamed: one round trip for each `chunk`, and each chunk stored as a whole.

        An item is a body, when `group_by` is set, or a mapping with the arguments of `append` (`body`, and as needed `group`,
        `id`, `score`, `headers`). A mapping is read that way when `group_by` is not set. With on_refused="stop", a chunk that
        holds an item which can't be stored is not stored at all, and BatchRefused says which and why and how many messages of
        earlier chunks were stored; with "skip" the others are stored and the receipt lists the refused.

        Raises BatchRefused, OutcomeUnknown, QueueFull, ServerUnavailable; repeating the call is harmless where items have ids.
        """
        if on_refused not in ("stop", "skip"):
            raise ConfigurationError(f"on_refused={on_refused!r} must be 'stop' or 'skip'")
        if isinstance(chunk, bool) or not isinstance(chunk, int) or not 1 <= chunk <= calls.MAX_APPEND:
            raise ConfigurationError(f"chunk={chunk!r} must be a whole number from 1 to {calls.MAX_APPEND}")
        appended = duplicates = 0
        refused: list[Refused] = []
        for marks, errors in self._append_chunks(enumerate(items), on_refused, chunk):
            if errors and on_refused == "stop":
                raise BatchRefused(errors, appended)
            refused += errors
            appended += sum(1 for mark in marks if mark.outcome == "stored")
            duplicates += sum(1 for mark in marks if mark.outcome == "duplicate")
        return BatchReceipt(appended, duplicates, refused)

    def _append_chunks(
        self, items: Iterator[tuple[int, Any]], on_refused: str, size: int
    ) -> Iterator[tuple[list[calls.Mark], list[Refused]]]:
        while some := list(itertools.islice(items, size)):
            errors: list[Refused] = []
            ready: list[tuple[int, calls.Item]] = []
            for index, value in some:
                try:
                    ready.append((index, self._item_of(value)))
                except InvalidMessage as error:
                    errors.append(Refused(index, error))
            marks: list[calls.Mark] = []
            if ready and not (errors and on_refused == "stop"):
                marks = self._append_chunk([item for _, item in ready], on_refused)
                for (index, item), mark in zip(ready, marks, strict=True):
                    if mark.outcome == "conflict":
                        errors.append(Refused(index, IdConflict(item.id, decode_group(item.group))))
            yield marks, sorted(errors, key=lambda refused: refused.index)

    def _append_chunk(self, items: list[calls.Item], on_refused: str) -> list[calls.Mark]:
        by_lane: dict[LaneKeys, list[int]] = {}
        for position, item in enumerate(items):
            by_lane.setdefault(self._keys_of(item.group), []).append(position)
        mode: Literal["none", "others"] = "others" if on_refused == "skip" else "none"
        todo = [calls.append(keys, [items[p] for p in places], on_conflict=mode) for keys, places in by_lane.items()]
        links, link = self._take()
        try:
            results = link.run(todo, is_atomic=True)
        except ServerUnavailable as error:
            if getattr(error, "maybe_sent", False):
                raise OutcomeUnknown(items[0].id, f"and {len(items) - 1} more of its chunk: {error}") from error
            raise
        finally:
            links.put(link)
        marks: list[calls.Mark] = [calls.Mark("conflict", 0)] * len(items)
        for places, result in zip(by_lane.values(), results, strict=True):
            for position, mark in zip(places, result, strict=True):
                marks[position] = mark
        return marks

    def _item_of(self, value: Any) -> calls.Item:
        if self.options.group_by is not None:
            return self._item(value, None, None, None, None)
        if not isinstance(value, Mapping) or "body" not in value:
            raise InvalidMessage(
                f"item {value!r:.80} must be a mapping with 'body' and 'group', or give the queue group_by=(...)"
            )
        unknown = set(value) - {"body", "group", "id", "score", "headers"}
        if unknown:
            raise InvalidMessage(f"item has unknown fields {sorted(map(str, unknown))}; known: body group id score headers")
        return self._item(
            value["body"], value.get("group"), value.get("id"), value.get("score"), value.get("headers")
        )

    def _item(
        self, body: Any, group: Any, message_id: Any, score: Any, headers: Mapping[str, str] | None
    ) -> calls.Item:
        options = self.options
        if group is None:
            if options.group_by is None:
                raise InvalidGroup("no group given; pass group=[...] or make the Sequencer with group_by=(...)")
            group = [_field(body, name, "group_by", InvalidGroup) for name in options.group_by]
        if message_id is None and options.id_by is not None:
            message_id = _field(body, options.id_by, "id_by", InvalidId)
        if score is None and options.score_by is not None:
            score = _field(body, options.score_by, "score_by", InvalidScore)
        return calls.Item(
            encode_group(group),
            self._ids.make() if message_id is None else encode_id(message_id),
            "" if score is None else encode_score(score),
            encode_envelope(body, headers, options.max_body_bytes),
        )

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

        `lease` and `max_age` in seconds. SIGINT or SIGTERM stops after the message in hand; a second one releases it and stops
        now (in the main thread; elsewhere `on_start` gets the consumer, whose `stop()` any thread may call). Returns why it
        ended and what it did. Raises HandlerNotFound, ConfigurationError, ServerNotUsable, DataError. A server that goes away
        is waited for.
        """
        function = self._handler if handler is None else _checked_handler(handler)
        if function is None:
            raise HandlerNotFound(f"queue {self.queue!r} has no handler; pass one to consume() or register it with @seq.handler")
        options = ConsumerOptions(
            lease_s=lease,
            until_empty=until_empty,
            max_messages=max_messages,
            max_age_s=max_age,
            limits=limits or ClaimLimits(),
        )
        self.connect()
        consumer = Consumer(self._find_endpoint(), self._lanes, self.options, options, function)
        if on_start:
            on_start(consumer)
        with stop_on_signals(consumer, lambda text: log.info("%s", text)):
            return consumer.run()

    def claim(self, *, groups: int = 1, messages: int = 100, lease: float = 15.0) -> Lease:
        """Lease up to `groups` due groups for your own loop; empty (false) when nothing is due.

        Use it as `with seq.claim() as lease: for message in lease: ...; lease.ack(message)`. Renewing is up to you:
        `lease.renew()`. Raises ConfigurationError, ServerError.
        """
        options = ConsumerOptions(lease_s=lease, limits=ClaimLimits(groups, messages))
        for name, value in (("groups", groups), ("messages", messages)):
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 1000:
                raise ConfigurationError(f"{name}={value!r} must be a whole number from 1 to 1000")
        self.connect()
        assert self._links is not None
        return Lease.claim(self._links, self._lanes, self.options, options, owner_name())

    # -- stuck groups -----------------------------------------------------------------------------------------

    def resume(self, group: Group) -> bool:
        """Let a parked or waiting group go on now, with fresh attempts. False when it was due already.

        Raises GroupNotFound, or GroupBusy when a consumer holds it.
        """
        return self._resume(group, skip=False) is not None

    def skip(self, group: Group) -> Message:
        """Remove the failed head of a group and let the group go on; returns the removed message, the only copy of it.

        Raises GroupNotFound, NotParked when its head did not fail, GroupBusy when a consumer holds it.
        """
        message = self._resume(group, skip=True)
        assert isinstance(message, Message)
        return message

    def _resume(self, group: Group, *, skip: bool) -> Message | bool | None:
        key = encode_group(group)
        keys = self._keys_of(key)
        links, link = self._take()
        try:
            for _ in range(5):
                record = link.command("HGET", keys.failures, key) or b""
                member = decode_failure(record)[1] if record else ""
                if record and not member:  # a failure without its message: step over the head itself
                    heads = link.command("ZRANGE", keys.order(key), 0, 0)
                    member = heads[0].decode("utf-8", "surrogateescape") if heads else ""
                done = link.run_one(calls.resume(keys, key, record, member, skip=skip))
                if done.status != "changed":
                    break
        finally:
            links.put(link)
        name = list(decode_group(key))
        if done.status == "missing":
            raise GroupNotFound(f"group {name} has no messages in queue {self.queue!r}")
        if done.status in ("leased", "changed"):
            raise GroupBusy(f"group {name} is held by a consumer just now; look at it again, and repeat if still needed")
        if done.status == "unfailed":
            raise NotParked(f"group {name} has no failed head to skip; it is not parked and not waiting after a failure")
        if not skip:
            return True if done.status == "resumed" else None
        try:
            return decode_record(member, done.score or "nan", done.record, decode_group(key), 0, self.queue)
        except ValueError:
            return raw_message(member, done.score or "nan", done.record, decode_group(key), 0, self.queue)

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
        with self._view() as view:
            return view.peek(encode_group(group), limit)

    def _view(self) -> monitor.View:
        links, link = self._take()
        return monitor.View(link, links, self._lanes, self.options)


class _IdMaker:
    """Ids that no other client makes: 64 random bits for each process, then a count. 0.2 us, against 1.5 us for a UUID."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._source = (0, "", itertools.count(1))

    def make(self) -> str:
        pid, prefix, count = self._source
        if pid != os.getpid():
            with self._lock:
                if self._source[0] != os.getpid():
                    self._source = (os.getpid(), secrets.token_hex(8), itertools.count(1))
                _, prefix, count = self._source
        return f"{prefix}-{next(count):x}"


def _field(body: Any, name: str, option: str, error: type[InvalidMessage]) -> Any:
    if not isinstance(body, Mapping):
        raise InvalidBody(f"body must be an object with field {name!r} for {option}, got {type(body).__name__}")
    if body.get(name) is None:
        raise error(f"body has no field {name!r}, which {option} names; it has {sorted(map(str, body))[:20]}")
    return body[name]


def _checked_handler(function: Any) -> Handler:
    if not callable(function):
        raise HandlerNotFound(f"handler {function!r} is not callable")
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None)):  # noqa: B004
        raise ConfigurationError(f"handler {function!r} is a coroutine function; this client calls plain functions only")
    handler: Handler = function
    return handler
