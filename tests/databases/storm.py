"""An outbox and an inbox while everything is killed: processes, the database, and Redis, which loses data as well.

`python -m tests.databases.storm postgresql --messages 100000 --kills 300`; with `--control` a rule is taken away,
which has to show (CONTROLS). Each order is written in the transaction that appends its message, while that has the lock
of its group, and each effect in that of the handler: at the end both tables have to be the same, group by group.
"""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import redis
import typer

from sequencer import Sequencer
from sequencer.outbox.operate import Operated
from sequencer.server import find_binary
from sequencer.testing import wait_until
from tests.support.databases import Database, database

ROLES = ("producer", "producer", "relay", "relay", "consumer", "consumer")
CHANCES = {
    "relay": 30,
    "consumer": 25,
    "producer": 15,
    "frozen": 8,
    "database": 6,
    "redis": 7,
    "redis loses a tail": 5,
    "redis loses all": 4,
}
CONTROLS = {
    "inbox": ("twice", "redis loses a tail"),  # effects are written whatever the inbox says
    "keep": ("lost", "redis loses all"),  # rows are deleted once they are sent
    "order": ("out of order", "relay"),  # the relay takes the newest rows first
    "outside": ("invented", "producer"),  # a message is committed before its order
}
"""What each brings about, and what is done for that alone."""
FROZEN_S = 7.0
"""Longer than a relay leads without a sign, and than a lease."""
PATIENCE_S = 60.0
LOST_BYTES = 100_000
SERIALS = {"postgresql": "bigserial", "mysql": "bigint AUTO_INCREMENT", "sqlite": "integer"}


class Redis:
    def __init__(self, directory: Path) -> None:
        self._directory, self.url = directory, f"unix://{directory / 'socket'}"
        self.start()

    def start(self) -> None:
        words = ["--port", "0", "--unixsocket", str(self._directory / "socket"), "--dir", str(self._directory)]
        words += ["--appendonly", "yes", "--save", "", "--logfile", str(self._directory / "log")]
        self._process = subprocess.Popen([find_binary(), *words])
        with Sequencer("other", self.url) as client:
            wait_until(lambda: _works(client.connect), 30, "Redis to answer")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def lose(self, chance: random.Random) -> None:
        """The last part of what it wrote."""
        for path in (self._directory / "appendonlydir").glob("*.incr.aof"):
            with open(path, "r+b") as file:
                file.truncate(max(path.stat().st_size - chance.randrange(LOST_BYTES), 0))

    def flush(self) -> None:
        with redis.Redis.from_url(self.url) as client:
            client.flushall()


def _works(function: Any) -> bool:
    with suppress(Exception):
        function()
        return True
    return False


class Storm:
    def __init__(self, db: Database, directory: Path, control: str, seed: int) -> None:
        self.db, self.redis, self.chance = db, Redis(directory), random.Random(seed)
        self.chances = {CONTROLS[control][1]: 1} if control else CHANCES
        self.given = json.dumps({"db": db.url, "redis": self.redis.url, "control": control})
        self.log = (directory / "processes.log").open("ab")
        Operated(db.connect, "jobs").create()
        key = f"id {SERIALS[db.kind]} PRIMARY KEY"
        for table in ("orders", "effects"):
            db.query(f"CREATE TABLE {table} ({key}, grp varchar(64) NOT NULL, mid varchar(64) NOT NULL)")
        with Sequencer("jobs", self.redis.url, shards=2) as client:
            client.connect()
        self.processes = [self.start(role) for role in ROLES]
        self.frozen = dict[int, float]()
        self.done, self.produces = Counter[str](), True

    def start(self, role: str) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-m", "tests.databases.storm_roles", role, self.given]
        return subprocess.Popen(words, stdout=self.log, stderr=self.log)

    def hit(self) -> None:
        (what,) = self.chance.choices([*self.chances], [*self.chances.values()])
        if what == "database" and self.db.kind == "sqlite":
            what = "producer"  # it is a part of each process
        self.done[what] += 1
        if what in ROLES:
            at = self.chance.choice([i for i, role in enumerate(ROLES) if role == what])
            self.kill(at)
        elif what == "frozen":
            at = self.chance.choice([i for i, role in enumerate(ROLES) if role != "producer"])
            self.processes[at].send_signal(signal.SIGSTOP)
            self.frozen[at] = time.monotonic()
        elif what == "database":
            self.db.kill()
            self.db.start()
        elif what == "redis loses all":
            self.redis.flush()
        else:
            self.redis.kill()
            if what != "redis":
                self.redis.lose(self.chance)
            self.redis.start()

    def kill(self, at: int) -> None:
        self.frozen.pop(at, None)
        self.processes[at].kill()
        self.processes[at].wait()

    def wake(self, after_s: float = FROZEN_S) -> None:
        for at in [at for at, since in self.frozen.items() if time.monotonic() - since >= after_s]:
            self.processes[at].send_signal(signal.SIGCONT)
            del self.frozen[at]

    def count(self, table: str) -> int:
        return int(self.db.query(f"SELECT count(*) FROM {table}")[0][0])

    def run(self, messages: int, kills: int, pause_s: float) -> None:
        while sum(self.done.values()) < kills or self.count("orders") < messages:
            time.sleep(self.chance.uniform(0, 2 * pause_s))
            self.wake()
            self.start_again()
            self.produces = self.count("orders") < messages
            if not self.produces:
                self.kill(0)
                self.kill(1)
            if sum(self.done.values()) < kills:
                self.hit()
        self.wake(0.0)
        last, since = -1, time.monotonic()
        while (found := self.count("effects")) < self.count("orders") and time.monotonic() - since < PATIENCE_S:
            last, since = (found, time.monotonic()) if found != last else (last, since)
            self.start_again()
            time.sleep(0.5)

    def start_again(self) -> None:
        """Those that were killed, and those that ended as their server was away."""
        for at, role in enumerate(ROLES):
            if self.processes[at].poll() is not None and (self.produces or role != "producer"):
                self.processes[at] = self.start(role)

    def found(self) -> dict[str, int]:
        """Messages that are wrong, of what kind."""
        names: dict[str, dict[str, list[str]]] = {"orders": {}, "effects": {}}
        for table, groups in names.items():
            for group, name in self.db.query(f"SELECT grp, mid FROM {table} ORDER BY id"):
                groups.setdefault(group, []).append(name)
        found = Counter[str]()
        for group in names["orders"] | names["effects"]:
            orders, effects = (names[table].get(group, []) for table in ("orders", "effects"))
            once = list(dict.fromkeys(effects))
            found["lost"] += len(set(orders) - set(once))
            found["invented"] += len(set(once) - set(orders))
            found["twice"] += len(effects) - len(once)
            known = set(once)
            expected = [name for name in orders if name in known]
            if group.startswith("g"):
                found["out of order"] += sum(a != b for a, b in zip(expected, once, strict=False))
        return dict(found)

    def close(self) -> None:
        for at, _ in enumerate(ROLES):
            self.kill(at)
        self.redis.kill()
        self.log.close()


def storm(
    kind: str, messages: int = 100_000, kills: int = 300, control: str = "", pause_s: float = 2.0, seed: int = 1
) -> dict[str, int]:
    """What was wrong, by kind, and how much was done."""
    directory = Path(tempfile.mkdtemp(prefix="sqs-"))
    with database(kind) as db:
        one, began = Storm(db, directory, control, seed), time.monotonic()
        try:
            one.run(messages, kills, pause_s)
            found = one.found()
            counts = {table: one.count(table) for table in ("orders", "effects", "sequencer_outbox")}
            print(f"{kind} {control}: {time.monotonic() - began:.0f} s, {counts}, {dict(one.done)}, wrong: {found}")
        finally:
            one.close()
    shutil.rmtree(directory)
    return found


if __name__ == "__main__":
    typer.run(storm)
