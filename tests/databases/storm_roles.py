"""What the processes of a storm do: `python -m tests.databases.storm_roles ROLE JSON`; each runs until it is killed."""

from __future__ import annotations

import json
import logging
import random
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from sequencer import Batch, Message, Sequencer
from sequencer.outbox import Inbox, Outbox, Relay, sql
from sequencer.outbox.drivers import connector, marked

GROUPS = 40
ROLLS_BACK, IS_TIMER = 0.05, 0.02
PAUSE_S = 0.02
"""Between transactions of a producer, so that consumers, who start again so often, keep up."""


class Connection:
    """One that is opened again after it failed."""

    def __init__(self, url: str) -> None:
        self._connect, self._style = connector(url), "qmark" if url.startswith("sqlite") else "format"
        self.one: Any = None

    def run(self, work: Callable[[Any], bool]) -> None:
        """Commits where the work says so. Raises what the driver raises."""
        try:
            self.one = self.one or self._connect()
            if work(self.one):
                self.one.commit()
            else:
                self.one.rollback()
        except BaseException:
            with suppress(Exception):
                self.one.close()
            self.one = None
            raise

    def insert(self, table: str, group: str, name: str) -> None:
        text = marked(f"INSERT INTO {table} (grp, mid) VALUES (?, ?)", self._style)
        self.one.cursor().execute(text, (group, name))


def producer(db: str, *, control: str, **_: Any) -> None:
    connection, outbox, chance = Connection(db), Outbox("jobs"), random.Random()

    def append(one: Any) -> bool:
        items: list[dict[str, Any]] = []
        for _ in range(chance.randrange(1, 6)):
            is_timer = chance.random() < IS_TIMER
            group = f"{'t' if is_timer else 'g'}{chance.randrange(GROUPS)}"
            items.append({"group": group, "body": {}, **({"delay": chance.uniform(0, 15)} if is_timer else {})})
        names = outbox.append_many(one, items)
        if control == "outside":
            one.commit()
        for item, name in zip(items, names, strict=True):
            connection.insert("orders", item["group"], name)
        return chance.random() >= ROLLS_BACK

    while True:
        with suppress(Exception):
            connection.run(append)
        time.sleep(PAUSE_S)


def relay(db: str, redis: str, *, control: str, **_: Any) -> None:
    if control == "order":
        sql.UNSENT = sql.UNSENT.replace("ORDER BY batch, id", "ORDER BY id DESC")
    keep: Any = 0.0 if control == "keep" else "until_done"
    Relay(connector(db), Sequencer("jobs", redis, shards=2), keep=keep).run()


def consumer(db: str, redis: str, *, control: str, **_: Any) -> None:
    connection, inbox = Connection(db), Inbox()

    def handle(message: Message[Any]) -> None:
        handle_all([message])

    def handle_batch(batch: Batch) -> None:
        handle_all(batch)

    def handle_all(messages: Iterable[Message[Any]]) -> None:
        def effects(one: Any) -> bool:
            for message in messages:
                if inbox.first(one, message) or control == "inbox":
                    connection.insert("effects", message.group[0], message.id)
            return True

        connection.run(effects)

    queue = Sequencer("jobs", redis, shards=2, max_attempts=1000, backoff=0.05, backoff_cap=0.5)
    if random.random() < 0.7:
        queue.handler(batch=50)(handle_batch)
    else:
        queue.handler(handle)
    queue.consume(lease=3.0)


def main() -> None:
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(process)d %(message)s")
    roles: dict[str, Callable[..., None]] = {"producer": producer, "relay": relay, "consumer": consumer}
    roles[sys.argv[1]](**json.loads(sys.argv[2]))


if __name__ == "__main__":
    main()
