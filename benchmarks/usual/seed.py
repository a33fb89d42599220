"""The algorithm that this project was asked for, as a good engineer writes it: hash, sorted set, SETNX guard, lock.

Beyond the naive version (`load/naive.py`) it has what reviews and incidents add: a group that was taken stays in a list
of its consumer's until it is done, a reaper releases groups whose lock expired, the lock is released and prolonged by
its owner only, the guard has an expiry, a group is looked at again once it was released, and a message that fails three
times goes to a list of dead ones.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from typing import Any

import redis

ATTEMPTS = 3
MINE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call(ARGV[2], KEYS[1], ARGV[3]) end return 0"
"""Prolong or release a lock of one's own: PEXPIRE in this many ms, in 0 to release it."""
Handle = Callable[[str, str, dict[str, Any]], None]


class Seed:
    def __init__(self, url: str, name: str, owner: str = "", lock_s: float = 10.0) -> None:
        self.redis: Any = redis.Redis.from_url(url, decode_responses=True, protocol=2)
        self.name, self.owner, self.lock_ms = name, owner, int(lock_s * 1000)
        self.dispatch, self.taken, self.dead = f"{name}:dispatch", f"{name}:taken", f"{name}:dead"
        self.mine = self.redis.register_script(MINE)

    def key(self, kind: str, group: str) -> str:
        return f"{self.name}:{kind}:{group}"

    def append(self, group: str, message_id: str, score: float, body: dict[str, Any]) -> None:
        with self.redis.pipeline(transaction=True) as pipe:
            pipe.hset(self.key("body", group), message_id, json.dumps(body))
            pipe.zadd(self.key("order", group), {message_id: score})
            pipe.execute()
        self.wake(group)

    def append_many(self, messages: Iterable[tuple[str, str, float, dict[str, Any]]]) -> None:
        some = list(messages)
        with self.redis.pipeline(transaction=True) as pipe:
            for group, message_id, score, body in some:
                pipe.hset(self.key("body", group), message_id, json.dumps(body))
                pipe.zadd(self.key("order", group), {message_id: score})
            pipe.execute()
        groups = list(dict.fromkeys(group for group, *_ in some))
        with self.redis.pipeline(transaction=False) as pipe:
            for group in groups:
                pipe.set(self.key("guard", group), 1, nx=True, px=3 * self.lock_ms)
            is_new = pipe.execute()
        if due := [group for group, new in zip(groups, is_new, strict=True) if new]:
            self.redis.lpush(self.dispatch, *due)

    def wake(self, group: str) -> None:
        if self.redis.set(self.key("guard", group), 1, nx=True, px=3 * self.lock_ms):
            self.redis.lpush(self.dispatch, group)

    def consume(self, handle: Handle) -> None:
        looked = time.monotonic()
        while True:
            if group := self.redis.blmove(self.dispatch, self.taken, 0.5, src="RIGHT", dest="LEFT"):
                self.drain(group, handle)
            if time.monotonic() - looked > self.lock_ms / 2000:
                self.reap()
                looked = time.monotonic()

    def drain(self, group: str, handle: Handle) -> None:
        lock = self.key("lock", group)
        if not self.redis.set(lock, self.owner, nx=True, px=self.lock_ms):
            return  # another one is on it, or died: the reaper gives it back
        while first := self.redis.zrange(self.key("order", group), 0, 0):
            message_id = first[0]
            body = json.loads(self.redis.hget(self.key("body", group), message_id) or "null")
            for attempt in range(1, ATTEMPTS + 1):
                try:
                    handle(group, message_id, body)
                    break
                except Exception:
                    if attempt == ATTEMPTS:
                        self.redis.lpush(self.dead, json.dumps([group, message_id, body]))
                    time.sleep(0.1)
            with self.redis.pipeline(transaction=True) as pipe:
                pipe.zrem(self.key("order", group), message_id)
                pipe.hdel(self.key("body", group), message_id)
                pipe.execute()
            if not self.mine(keys=[lock], args=[self.owner, "pexpire", self.lock_ms]):
                return  # it took longer than the lock lasts: another one is on the group by now
        self.redis.delete(self.key("guard", group))
        self.redis.lrem(self.taken, 0, group)
        self.mine(keys=[lock], args=[self.owner, "pexpire", 0])
        if self.redis.exists(self.key("order", group)):
            self.wake(group)  # appended while the guard was still there

    def reap(self) -> None:
        for group in self.redis.lrange(self.taken, 0, -1):
            if not self.redis.exists(self.key("lock", group)) and self.redis.lrem(self.taken, 1, group):
                self.redis.lpush(self.dispatch, group)
