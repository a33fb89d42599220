"""The relay against random crashes, frozen relays, refusals and shards that lose data; the queue here is a model."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from sequencer.errors import IdConflict, RelayOutdated, SequencerError, ServerUnavailable
from sequencer.outbox import Outbox, relay, sql
from sequencer.outbox.queue import Numbered
from sequencer.outbox.relay import Relay
from sequencer.store.group import shard_of

from ..support.examples import examples

SEEDS = range(examples(60))


class Shard:
    """What a shard keeps, and its earlier states: one of them is what a failover leaves."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, str]] = []
        self.last = dict[str, int]()
        self.earlier: list[tuple[int, dict[str, int]]] = []

    def store(self, name: str, batch: Numbered, *, is_fenced: bool) -> int | SequencerError | None:
        last = self.last.get(name, 0)
        if is_fenced and not batch.before <= last < batch.number:
            return last
        if any(item.id.startswith("bad") for item in batch.items):
            return IdConflict(id="bad", group=("g",))
        self.earlier.append((len(self.messages), dict(self.last)))
        known = set(self.messages)
        self.messages += [pair for item in batch.items if (pair := (item.group, item.id)) not in known]
        if not is_fenced:
            self.messages += [(item.group, item.id) for item in batch.items if (item.group, item.id) in known]
        self.last[name] = batch.number
        return None

    def lose(self, chance: random.Random) -> None:
        if self.earlier:
            at = chance.randrange(len(self.earlier))
            count, self.last = self.earlier[at][0], dict(self.earlier[at][1])
            del self.messages[count:], self.earlier[at:]


class World:
    """A database, a queue of two shards, and two relays of it."""

    name = "orders"

    def __init__(self, path: Path, seed: int, *, is_fenced: bool = True, keep_s: float = 1e6) -> None:
        self.chance, self.path, self.is_fenced = random.Random(seed), path, is_fenced
        self.shards, self.outbox = [Shard(), Shard()], Outbox("orders")
        self.committed: dict[str, list[str]] = {}
        self.database = self.connect()
        for statement in self.outbox.ddl("sqlite"):
            self.database.execute(statement)
        self.database.commit()
        self.relays = [Relay(self.connect, cast(Any, self), keep=keep_s) for _ in range(2)]
        self.is_quiet, self.depth, self.count = False, 0, 0
        self.active: Relay | None = None

    def connect(self) -> Any:
        database = sqlite3.connect(self.path, timeout=0.0)
        database.execute("PRAGMA synchronous = OFF")
        return database

    # -- the queue ---------------------------------------------------------------------------------------------

    def shards_of(self, groups: Sequence[str]) -> list[int]:
        return [shard_of(group, len(self.shards)) for group in groups]

    def last_batches(self, name: str) -> list[int]:
        self.disturb()
        return [shard.last.get(name, 0) for shard in self.shards]

    def send_batches(self, name: str, batches: Sequence[Numbered]) -> list[int | SequencerError | None]:
        self.disturb()
        answers = [self.shards[batch.shard].store(name, batch, is_fenced=self.is_fenced) for batch in batches]
        self.disturb()
        return answers

    def disturb(self) -> None:
        """The relay dies here, or stands still while others go on."""
        if self.is_quiet:
            return
        if self.chance.random() < 0.15:
            raise ServerUnavailable("it died here")
        if self.depth == 0 and self.chance.random() < 0.3:
            self.depth += 1
            for _ in range(self.chance.randrange(5)):
                self.step()
            self.depth -= 1

    # -- what happens ------------------------------------------------------------------------------------------

    def step(self) -> None:
        what = self.chance.random()
        if what < 0.45:
            for _ in range(self.chance.randrange(1, 4)):
                self.append()
        elif what < 0.5 and self.depth == 0 and self.is_fenced:
            self.chance.choice(self.shards).lose(self.chance)
        else:
            self.round(self.chance.choice([one for one in self.relays if one is not self.active]))

    def append(self, name: str = "") -> None:
        self.count += 1
        group = f"g{self.chance.randrange(4)}"
        name = name or f"{'bad' if self.chance.random() < 0.03 else 'm'}{self.count}"
        self.outbox.append(self.database, {}, group, id=name)
        if self.chance.random() < 0.1:
            self.database.rollback()
        else:
            self.database.commit()
            self.committed.setdefault(group, []).append(name)

    def round(self, one: Relay) -> None:
        before, self.active = self.active, one
        try:
            one.round()
        except ServerUnavailable:
            pass
        finally:
            self.active = before

    def settle(self) -> None:
        """All that was committed is sent, once refused messages are dropped."""
        self.is_quiet = True
        for _ in range(60):
            self.round(self.relays[0])
            held = self.database.execute("SELECT grp, mid FROM sequencer_outbox WHERE batch = -1").fetchall()
            for group, name in held:
                self.database.execute("DELETE FROM sequencer_outbox WHERE grp = ? AND mid = ?", (group, name))
                self.committed[group].remove(name)
            self.database.commit()

    def check(self) -> None:
        found: dict[str, list[str]] = {}
        for shard in self.shards:
            for group, name in shard.messages:
                found.setdefault(group, []).append(name)
        assert found == {group: names for group, names in self.committed.items() if names}


@pytest.fixture(autouse=True)
def others_take_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """At any time: the token alone must keep what one assigns whole."""
    monkeypatch.setattr(relay, "LEADS_S", -1.0)
    monkeypatch.setattr(relay, "BEAT_S", 0.0)
    monkeypatch.setattr(relay, "CHUNK", 2)


def played(path: Path, seed: int, **how: Any) -> World:
    path.unlink(missing_ok=True)
    world = World(path, seed, **how)
    for _ in range(40):
        world.step()
    world.settle()
    return world


@pytest.mark.slow
def test_each_committed_message_is_stored_once_in_order(tmp_path: Path) -> None:
    for seed in SEEDS:
        played(tmp_path / "db", seed).check()


def is_caught(path: Path, **how: Any) -> bool:
    """Whether a seed shows that something is wrong."""
    for seed in range(200):
        try:
            played(path, seed, **how).check()
        except (AssertionError, RelayOutdated):
            return True
    return False


def anybody_saves(one: Relay, execute: Any) -> None:
    execute(sql.SAVE.rpartition(" AND")[0], (one._batch, one._since, "{}", *one._mine))


@pytest.mark.parametrize("rule", ["fence", "token", "kept", "order"])
def test_a_rule_that_is_taken_away_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: str) -> None:
    controls: dict[str, dict[str, Any]] = {"fence": {"is_fenced": False}, "kept": {"keep_s": 0.0}}
    if rule == "token":
        monkeypatch.setattr(Relay, "_save", anybody_saves)
    if rule == "order":
        monkeypatch.setattr(sql, "UNSENT", sql.UNSENT.replace("ORDER BY batch, id", "ORDER BY id DESC"))
    assert is_caught(tmp_path / "db", **controls.get(rule, {}))
