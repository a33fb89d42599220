"""A team's own ordered queue on Redis Streams: partitions by group, one consumer each, take-over after a crash."""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Callable, Iterable
from typing import Any

import redis

PARTITIONS, READ, ATTEMPTS = 16, 100, 3
Handle = Callable[[str, str, dict[str, Any]], None]


class Streams:
    def __init__(self, url: str, name: str, owner: str = "", consumers: int = 1, lock_s: float = 10.0) -> None:
        self.redis: Any = redis.Redis.from_url(url, decode_responses=True, protocol=2)
        self.streams = [f"{name}:{number}" for number in range(PARTITIONS)]
        self.owner, self.share, self.lock_ms = owner, -(-PARTITIONS // consumers), int(lock_s * 1000)
        self.mine: list[str] = []
        self.looked = float("-inf")

    def append_many(self, messages: Iterable[tuple[str, str, dict[str, Any]]]) -> None:
        with self.redis.pipeline(transaction=False) as pipe:
            for group, message_id, body in messages:
                stream = self.streams[zlib.crc32(group.encode()) % PARTITIONS]
                pipe.xadd(stream, {"group": group, "id": message_id, "body": json.dumps(body)})
            pipe.execute()

    def take(self, handle: Handle) -> None:
        """Prolong the locks of the partitions that are mine, and take free ones up to my share, four times a lock."""
        if time.monotonic() - self.looked < self.lock_ms / 4000:
            return
        self.looked = time.monotonic()
        self.mine = [s for s in self.mine if self.redis.get(f"{s}:lock") == self.owner]
        for stream in self.mine:
            self.redis.pexpire(f"{stream}:lock", self.lock_ms)
        for stream in self.streams:
            if len(self.mine) < self.share and self.redis.set(f"{stream}:lock", self.owner, nx=True, px=self.lock_ms):
                self.mine.append(stream)
                if not self.redis.exists(stream) or not self.redis.xinfo_groups(stream):
                    self.redis.xgroup_create(stream, "workers", "0", mkstream=True)
                while entries := self.redis.xautoclaim(stream, "workers", self.owner, 0, "0-0", count=READ)[1]:
                    self.run(stream, entries, handle)

    def run(self, stream: str, entries: list[tuple[str, dict[str, str]]], handle: Handle) -> None:
        for _, fields in entries:
            for _attempt in range(ATTEMPTS):
                try:
                    handle(fields["group"], fields["id"], json.loads(fields["body"]))
                    break
                except Exception:
                    time.sleep(0.1)  # a failing message is dropped after some attempts, and its group goes on
        done = [entry_id for entry_id, _ in entries]
        with self.redis.pipeline() as pipe:
            pipe.xack(stream, "workers", *done).xdel(stream, *done).execute()

    def consume(self, handle: Handle) -> None:
        while True:
            self.take(handle)
            for stream, entries in self.read() if self.mine else ():
                self.take(handle)
                if stream in self.mine:  # another consumer has what was read of the others, by XAUTOCLAIM
                    self.run(stream, entries, handle)
            time.sleep(0 if self.mine else 0.1)

    def read(self) -> Any:
        wanted = dict.fromkeys(self.mine, ">")
        return self.redis.xreadgroup("workers", self.owner, wanted, count=READ, block=500) or ()
