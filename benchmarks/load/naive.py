"""The naive version: list, SETNX guard and lock. A negative control, on which every checker must turn red.

It is what one writes first: a hash of bodies and a sorted set of ids by millisecond timestamp for each group, written
in MULTI/EXEC; a dispatch list that a group enters when SETNX on its guard says that it is not there yet; a group lock
with an expiry; and a consumer that drains in score order, deletes each message after it succeeded, and releases. Each
step is right by itself. Together they fail, because several keys claim to know who must work on a group, and no step
that changes one of them looks at the others:

    order       equal timestamps fall back to the byte order of the id
    lost        a message stored after `head` found nothing and before `unguard` is in no list: its append saw the guard
    wedged      a group pushed after `unguard` and before `unlock` is popped by a consumer that finds the lock taken and
                drops it; its guard stays, so no later append pushes it again

Every step is a method of its own, so that a test can put steps of two parties into exactly these orders.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import redis

from .history import Row
from .workload import Planned

LOCK_MS = 15_000
POP_S = 0.2


class NaiveMessage(NamedTuple):
    """The head of a group."""

    group: str
    id: str
    score: float
    body: dict[str, Any]


class NaiveQueue:
    """One queue; its keys begin with `prefix`. Not for two threads at once: each party makes its own."""

    def __init__(self, url: str, prefix: str) -> None:
        scheme, _, place = url.partition("://")
        url = f"{scheme.replace('valkey', 'redis')}://{place}"
        # Any: the answers of redis-py's commands are typed as "awaitable or not".
        self.client: Any = redis.Redis.from_url(url, decode_responses=True, protocol=2, socket_timeout=5.0)
        self._prefix = prefix

    def connect(self) -> None:
        self.client.ping()

    def close(self) -> None:
        self.client.close()

    def _key(self, kind: str, group: str = "") -> str:
        return f"{self._prefix}:{kind}:{group}" if group else f"{self._prefix}:{kind}"

    # -- the producer's steps ---------------------------------------------------------------------------------

    def append(self, group: str, message_id: str, score_ms: int, body: dict[str, Any]) -> None:
        self.store(group, message_id, score_ms, body)
        self.wake(group)

    def store(self, group: str, message_id: str, score_ms: int, body: dict[str, Any]) -> None:
        with self.client.pipeline(transaction=True) as pipeline:
            pipeline.hset(self._key("body", group), message_id, json.dumps(body))
            pipeline.zadd(self._key("order", group), {message_id: score_ms})
            pipeline.execute()

    def wake(self, group: str) -> None:
        if self.client.setnx(self._key("guard", group), 1):
            self.client.lpush(self._key("dispatch"), group)

    # -- the consumer's steps ---------------------------------------------------------------------------------

    def pop(self, seconds: float) -> str | None:
        """The next group to work on; waits for one, unless `seconds` is 0."""
        if seconds:
            popped = self.client.brpop([self._key("dispatch")], timeout=seconds)
            return popped[1] if popped else None
        group: str | None = self.client.rpop(self._key("dispatch"))
        return group

    def lock(self, group: str, owner: str) -> bool:
        return bool(self.client.set(self._key("lock", group), owner, nx=True, px=LOCK_MS))

    def head(self, group: str) -> NaiveMessage | None:
        first = self.client.zrange(self._key("order", group), 0, 0, withscores=True)
        if not first:
            return None
        message_id, score = first[0]
        return NaiveMessage(
            group, message_id, score, json.loads(self.client.hget(self._key("body", group), message_id))
        )

    def remove(self, message: NaiveMessage) -> None:
        with self.client.pipeline(transaction=True) as pipeline:
            pipeline.zrem(self._key("order", message.group), message.id)
            pipeline.hdel(self._key("body", message.group), message.id)
            pipeline.execute()

    def unguard(self, group: str) -> None:
        self.client.delete(self._key("guard", group))

    def unlock(self, group: str) -> None:
        self.client.delete(self._key("lock", group))

    # -- the two parties --------------------------------------------------------------------------------------

    def append_all(self, messages: Iterable[tuple[Planned, int, dict[str, Any]]]) -> None:
        """Append each message with its score (ms) and body."""
        for message, score_ms, body in messages:
            self.append(message.group, message.id, score_ms, body)

    def consume(self, record: Callable[[Row], None], owner: str, is_ending: Callable[[], bool]) -> None:
        """Drain groups until told to end and the dispatch list is empty.

        When no producer is left, nothing can push a group any more: what the list does not hold then, nobody handles.
        """
        while True:
            seconds = 0.0 if is_ending() else POP_S
            group = self.pop(seconds)
            if group is not None:
                self.drain(group, record, owner)
            elif not seconds:
                return

    def drain(self, group: str, record: Callable[[Row], None], owner: str) -> None:
        """Handle one group's messages until it is empty."""
        if not self.lock(group, owner):
            return  # another consumer is on it
        while (message := self.head(group)) is not None:
            started = time.monotonic()
            # It has neither stamps nor tokens; the producer's count says in what order the messages arrived.
            stamp = message.body["number"]
            record((group, message.id, message.score, stamp, 0, started, time.monotonic()))
            self.remove(message)
        self.unguard(group)
        self.unlock(group)
