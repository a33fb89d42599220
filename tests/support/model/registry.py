"""A model of registry and shards in plain Python: what the scripts `register` and `sync_shard` do, and a generation's
comparison.

Written from the scripts' contracts; a test on a real server feeds both the same calls. Each rule of the protocol that a
walk needs can be switched off: see RULES.
"""

from __future__ import annotations

import json
from typing import Any

from sequencer.calls.net_protocol import Alone
from sequencer.errors import SequencerError
from sequencer.store.registration import RULES as DEFERRED
from sequencer.testing.wire import name_of

RULES = {
    "generations are times": "with a counter, tables of two queues share an generation_number",
    "shards hold the table": "a registration that was lost can't be made again",
    "a clock without a table is refused": "a newcomer takes its own number of shards",
    "shards take what is newer": "a sleeper brings an old table back",
    "a shard keeps its table": "who looked before there was a registration registers after it was lost",
    "first pending, then confirmed": "a sleeper brings the table of a deleted queue into a shard without one",
    "a deletion is a table": "the same, between the look at the registry and the end of the deletion",
    "what is newer is written back": "an older registry makes everybody wait for ever",
}
"""Each rule, and what happens without it."""
Words = tuple[Any, ...]


class ModelServer:
    """One server with the keys of one queue."""

    def __init__(self, *, without: str = "") -> None:
        assert not without or without in RULES
        self.without = without
        self.now_us = 1_700_000_000_000_000
        self.hashes: dict[str, dict[str, str]] = {}
        self.clocks: set[str] = set()
        self.groups: dict[str, dict[str, int]] = {}
        """Prefix of a shard -> group -> messages."""

    def run(self, words: Words) -> Any:
        """The reply to one command, as bytes."""
        name = name_of(words)
        if name.islower():
            count = int(words[2])
            return getattr(self, f"_{name}")([str(key) for key in words[3 : 3 + count]], words[3 + count :])
        return getattr(self, f"_{name.lower()}")(*words[1:])

    # -- commands -----------------------------------------------------------------------------------------------

    def _hgetall(self, key: str) -> list[bytes]:
        return [word.encode() for pair in self.hashes.get(key, {}).items() for word in pair]

    def _hget(self, key: str, name: str) -> bytes | None:
        value = self.hashes.get(key, {}).get(name)
        return None if value is None else value.encode()

    def _hmget(self, key: str, *names: str) -> list[bytes | None]:
        return [self._hget(key, name) for name in names]

    def _hset(self, key: str, *words: Any) -> int:
        texts = [word.decode() if isinstance(word, bytes) else str(word) for word in words]
        self.hashes.setdefault(key, {}).update(zip(texts[::2], texts[1::2], strict=True))
        return len(texts) // 2

    def _hsetnx(self, key: str, name: str, value: Any) -> int:
        return 0 if self._hget(key, name) is not None else self._hset(key, name, value)

    def _hdel(self, key: str, *names: str) -> int:
        return sum(self.hashes.get(key, {}).pop(name, None) is not None for name in names)

    def _exists(self, *keys: str) -> int:
        if self.without == "a clock without a table is refused":
            keys = tuple(key for key in keys if not key.endswith(":clock"))
        return sum(bool(self.hashes.get(key)) or key in self.clocks for key in keys)

    def _unlink(self, *keys: str) -> int:
        for key in keys:
            prefix, _, name = key.partition("}:")
            if name.startswith("order:"):
                self.groups.get(f"{prefix}}}:", {}).pop(name[6:], None)
            self.hashes.pop(key, None)
            self.clocks.discard(key)
        return len(keys)

    def _zrange(self, key: str, first: int, last: int) -> list[bytes]:
        names = sorted(self.groups.get(key.removesuffix("schedule"), {}))
        return [name.encode() for name in names[first : last + 1]]

    def _zrem(self, key: str, *names: str) -> int:
        return len(names)

    def _scan(self, *_: Any) -> list[Any]:
        return [b"0", [key.encode() for key in sorted({*self.clocks, *self.hashes})]]

    def _zscan(self, *_: Any) -> list[Any]:
        return [b"0", []]

    def _time(self) -> list[bytes]:
        return [b"%d" % (self.now_us // 10**6), b"%d" % (self.now_us % 10**6)]

    def _info(self, *sections: object) -> bytes:
        return b"redis_version:7.0.0\r\nrole:master\r\n"

    def _append(self, prefix: str, generation: str, group: str) -> bytes:
        """In place of append.lua: the group has one message more, where the generation is that of the shard."""
        policy = self.hashes.get(f"{prefix}policy", {})
        there = policy.get("generation", "")
        if there != generation:
            return b"GENERATION"
        self.clocks.add(f"{prefix}clock")
        groups = self.groups.setdefault(prefix, {})
        groups[group] = groups.get(group, 0) + 1
        return b"+"

    # -- scripts ------------------------------------------------------------------------------------------------

    def _register(self, keys: list[str], args: Words) -> list[bytes]:
        (key,), words = keys, json.loads(args[0])
        there = self.hashes.get(key, {})
        if self.without == "a deletion is a table" and words["protocol"] in ("-1", ""):
            if not words["protocol"]:
                self.hashes.pop(key, None)
                return []
            fake = {**there, "generation": f"-1.{max(self.now_us, int(words['least']))}", "version": "0"}
            return [word.encode() for pair in fake.items() for word in pair]
        if [there.get("generation", ""), there.get("version", "")] == words["seen"]:
            if words["protocol"] == "":
                self.hashes.pop(key, None)
            elif there and words["generation_number"] and not self._is_next(there, words):
                pass  # without "what is newer is written back"
            else:
                least = int(words["least"])
                made = least if self.without == "generations are times" else max(self.now_us, least)
                generation = f"{words['protocol']}.{words['generation_number'] or made}"
                rest = ("version", words["version"], "table", words["table"], "policy", words["policy"])
                self._hset(key, "generation", generation, *rest)
        return self._hgetall(key)

    def _is_next(self, there: dict[str, str], words: Any) -> bool:
        same = there["generation"].partition(".")[2] == words["generation_number"]
        return same or self.without != "what is newer is written back"

    def _sync_shard(self, keys: list[str], args: Words) -> list[Any]:
        prefix, words, step = keys[0].removesuffix("schedule"), json.loads(args[0]), str(args[1])
        key, clock = f"{prefix}policy", f"{prefix}clock"
        policy = self.hashes.get(key, {})
        if self.without == "a deletion is a table" and str(words.get("generation", "")).startswith("-1"):
            return [b"same", self._hgetall(key)]
        if step.startswith("woken"):
            if policy.get("again") == step[6:]:
                del policy["again"]
            return [b"none", []]
        mine, status = f"{words['generation']} {words['version']}", b"none"
        there: tuple[int, int] | None = None
        if "generation" in policy:
            there = int(policy["generation"].rpartition(".")[2]), int(policy.get("version", 0))
        wanted = (words["generation_number"], words["version"])
        takes = there is not None and (wanted > there or (wanted != there and self._takes_all()))
        if step == "remove":
            if policy.get("pending") == words["pending"]:
                del policy["pending"]
        elif there is not None and not takes:
            status = b"same" if wanted == there else b"newer"
        elif takes and words["keeps"] and self._has_other_table(policy, words):
            status = b"other"
        elif there is None and step == "put" and self.without != "first pending, then confirmed":
            self._hset(key, "pending", f"{mine} {self.now_us}")
            status = b"pending"
        elif takes or step == "put" or policy.get("pending") == words["pending"]:
            self._set_fields(key, words, mine if words["packed"] else "")
            self._hset(key, "generation", words["generation"], "version", words["version"])
            self._hdel(key, "pending", "packed", "table")
            if self.without != "shards hold the table":
                self._hset(key, "table", words["table"])
            if words["packed"]:
                self._hset(key, "packed", words["packed"])
            self.clocks.add(clock)
            status = b"taken"
        return [status, self._hgetall(key)]

    def _has_other_table(self, policy: dict[str, str], words: Any) -> bool:
        is_live = not policy.get("generation", "0").startswith("-")
        is_kept = self.without != "a shard keeps its table"
        return is_kept and is_live and policy.get("table", words["table"]) != words["table"]

    def _takes_all(self) -> bool:
        return self.without == "shards take what is newer"

    def _set_fields(self, key: str, words: Any, mark: str) -> None:
        policy, fields = self.hashes.get(key, {}), words["fields"]
        if mark and any(name in fields and name in policy and policy[name] != fields[name] for name in DEFERRED):
            self._hset(key, "again", mark)
        for name, value in fields.items():
            self._hset(key, name, value)

    def _wake(self, keys: list[str], args: Words) -> bytes:
        return b"missing"


class ModelAlone:
    """A connection of its own to a model server, which answers at once."""

    name = "model"

    def __init__(self, server: ModelServer) -> None:
        self.server, self.asked = server, list[Words]()
        self._queued: list[Words] | None = None

    async def read(self, commands: Any) -> list[Any]:
        answers = await self.answers(commands)
        for answer in answers:
            if isinstance(answer, SequencerError):
                raise answer
        return answers

    async def answers(self, commands: Any, **_: Any) -> list[Any]:
        return [self._run(tuple(words)) for words in commands]

    def give_up(self) -> None:
        pass

    async def nodes(self) -> list[Alone]:
        return [self]

    def _run(self, words: Words) -> Any:
        self.asked.append(words)
        if words[0] == "MULTI":
            self._queued = []
            return b"OK"
        if words[0] in ("EXEC", "DISCARD"):
            queued, self._queued = self._queued or [], None
            return [self.server.run(one) for one in queued] if words[0] == "EXEC" else b"OK"
        if self._queued is not None:
            self._queued.append(words)
            return b"QUEUED"
        return self.server.run(words)
