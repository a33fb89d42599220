"""Relay: sends what was committed in an outbox to its queue.

One leads for each part of an outbox. It gives rows a batch, sends the batches of a shard in the order of their numbers,
and a shard stores each number once (`lua/append.lua`). So a relay that dies anywhere is followed by one that sends the
last batches again, and one that was frozen stores nothing:

| it dies after | then |
| --- | --- |
| rows got batches, nothing is committed | nothing happened |
| that is committed, nothing is sent | the next one sends those batches first |
| they are sent, the answer is lost | it sends them again: the shard has their numbers |
| frozen, another leads, it wakes | its batches are stored or outdated, and it assigns no others: its token is gone |

A row that is refused is held, with the later rows of its group. A shard that lost data says a number below the one that
the relay knows: the rows behind that are assigned again, before later rows of their groups, as far as they are kept.
"""

from __future__ import annotations

import json
import math
import secrets
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import groupby
from typing import Any, Literal, NamedTuple, NoReturn

import orjson

from ..client import Sequencer
from ..consume.forks import signals_taken
from ..errors import DataError, RelayOutdated, SequencerError
from ..settings.pace import STOP_CHECK_S
from ..store.envelope import decode_envelope
from ..store.group import decode_group
from ..store.item import Item
from ..texts.events import event, log_event
from ..texts.words import error_text
from ..values.checks import seconds_of
from ..values.durations import Duration
from . import sql
from .drivers import Execute, refusal_of, text_of, with_tables
from .inbox import ROW
from .queue import Numbered, RelayQueue

CHUNK, CHUNK_GROUPS = 200, 128
"""Messages, and groups, of a batch: as of `append_many`."""
ROUND = 2000
"""Rows assigned at once."""
LEADS_S = 4.0
"""After which another relay, which looks every half BEAT_S, takes over from a leader that writes nothing."""
BEAT_S = 1.0
HELD_LOG_S = 60.0
"""Between two log lines about held rows, of which there may be thousands."""
RECONNECT_S = 5.0
"""Longest pause after a failure."""
POLL_S = (0.02, 0.05)
"""Shortest and longest pause while nothing waits."""


class Row(NamedTuple):
    """A row of the outbox."""

    id: int
    item: Item
    batch: int


class NotLeading(Exception):
    """Another relay took over."""


class Relay:
    """Sends one part of an outbox, while it leads. One thread uses it; `stop` may be called by any."""

    def __init__(
        self,
        connect: Callable[[], Any],
        queue: Sequencer | RelayQueue,
        *,
        part: int = 0,
        prefix: str = "sequencer_",
        keep: Duration | Literal["until_done"] = 600.0,
    ) -> None:
        """`connect`: opens a DB-API connection that is not in autocommit mode. `keep`: how long rows stay once they are
        stored, for a server that loses data; "until_done": until `Inbox.first` saw their message.
        """
        self._connect, self._prefix = connect, prefix
        self._queue = RelayQueue(queue) if isinstance(queue, Sequencer) else queue
        self._mine = self._queue.name, part
        self._keep_s = None if keep == "until_done" else seconds_of("keep", keep)
        self._clock = time.monotonic
        self._token = secrets.token_hex(8)
        self._connection: Any = None
        self._generation = ""
        self._batch, self._since, self._sent = 0, 1, dict[int, int]()
        """The last number assigned; the first that may not be stored; of each shard the last that is."""
        self._open: list[tuple[int, list[Row]]] = []
        """Batches that are assigned and may not be stored: shard and rows."""
        self._is_repeat = False
        """Whether they may be stored already."""
        self._limit = ROUND
        """How many rows are assigned at once: few where one of them is refused."""
        self._marks: list[tuple[float, int]] = []
        """When which numbers were stored."""
        self._is_leading, self._is_saved, self._wrote_at = False, True, 0.0
        self._held, self._log_at = 0, -math.inf
        """Rows that were held and are not logged; when the next one is."""
        self._stopping = threading.Event()
        self.error: RelayOutdated | None = None
        """What ended it: its tables are older than the queue."""
        self.sent = 0
        """Messages stored since it began."""

    def stop(self) -> None:
        self._stopping.set()

    def run(self) -> None:
        """Relay until stopped, or until `error` says why not. Waits for a database or a server that goes away."""
        pause_s, failed = POLL_S[0], ""
        while not self._stopping.is_set():
            try:
                stored = self.round()
            except RelayOutdated as error:
                self.error = error
                break
            except Exception as error:  # of the database's driver, or of the server
                if type(error).__name__ != failed:
                    self._emit("relay failed", error=refusal_of(error) or error)
                failed, pause_s = type(error).__name__, min(max(2 * pause_s, 0.1), RECONNECT_S)
            else:
                if failed:
                    self._emit("relay restored")
                failed = ""
                pause_s = POLL_S[0] if stored else min(2 * pause_s, POLL_S[1]) if self._is_leading else BEAT_S / 2
                if stored:
                    continue
            self._pause(pause_s)
        self._resign()

    def _pause(self, seconds: float) -> None:
        """Where a trigger of PostgreSQL notifies, and psycopg hears it: until rows wait."""
        if self._is_leading and callable(getattr(self._connection, "notifies", None)):
            with suppress(Exception):  # the next round says what is wrong
                list(self._connection.notifies(timeout=seconds, stop_after=1))
                return
        self._stopping.wait(seconds)

    def round(self) -> int:
        """Send what waits, at most ROUND rows; how many were stored. Raises RelayOutdated, and errors of the driver
        and of the server, after which the next round goes on.
        """
        try:
            if not self._is_leading and not self._lead():
                return 0
            if not self._open:
                self._assign()
            return self._send() if self._open else self._rest()
        except NotLeading:
            self._is_leading = False
            return 0
        except BaseException:
            self._is_leading = False  # what is stored, and whether it leads, is read again
            self._close()
            raise

    # -- leading ------------------------------------------------------------------------------------------------

    def _lead(self) -> bool:
        with self._transaction() as execute:
            is_new = not execute(sql.RELAY, self._mine).fetchall()
        if is_new:
            with suppress(Exception), self._transaction() as execute:  # another one may be faster
                execute(sql.NEW_RELAY, (*self._mine, secrets.token_hex(8)))
        with self._transaction() as execute:
            if execute(sql.LEAD, (self._token, *self._mine, self._token, LEADS_S)).rowcount != 1:
                return False
            ((self._generation, self._batch, self._since, sent),) = execute(sql.RELAY, self._mine).fetchall()
            self._sent = {int(shard): number for shard, number in json.loads(sent).items()}
            rows = rows_of(execute(sql.ASSIGNED, (*self._mine, self._since)))
        for shard, last in enumerate(self._queue.last_batches(self._generation)):
            if last > self._batch:
                self._outdated(shard, self._batch, last)
        shards = self._queue.shards_of([row.item.group for row in rows])
        found = groupby(zip(rows, shards, strict=True), lambda pair: pair[0].batch)
        self._open = [(pairs[0][1], [row for row, _ in pairs]) for pairs in (list(of) for _, of in found)]
        self._is_repeat = self._is_leading = True
        self._limit, self._marks = ROUND, [(self._clock(), self._batch)]
        return True

    def _resign(self) -> None:
        """Another one may lead at once."""
        if self._is_leading:
            with suppress(Exception), self._transaction() as execute:
                self._save(execute)
                execute(sql.RESIGN, (*self._mine, self._token))
            self._is_leading = False
        self._close()

    def _save(self, execute: Execute) -> None:
        """Within each transaction: who does not lead any more changes nothing."""
        given = self._batch, self._since, json.dumps(self._sent), *self._mine, self._token
        if execute(sql.SAVE, given).rowcount != 1:
            raise NotLeading
        self._is_saved, self._wrote_at = True, self._clock()

    # -- a round ------------------------------------------------------------------------------------------------

    def _assign(self) -> None:
        with self._transaction() as execute:
            rows = rows_of(execute(sql.UNSENT, (*self._mine, *self._mine, self._limit)))
            if not rows:
                return
            self._open = []
            for shard, part in chunks(rows, self._queue.shards_of([row.item.group for row in rows])):
                self._batch += 1
                self._open.append((shard, [row._replace(batch=self._batch) for row in part]))
            self._save(execute)
            execute(sql.batches([(part[0].batch, [row.id for row in part]) for _, part in self._open]), ())
        self._is_repeat = False

    def _send(self) -> int:
        before, batches = dict(self._sent), list[Numbered]()
        for shard, rows in self._open:
            batches.append(Numbered(shard, rows[0].batch, before.get(shard, 0), [*map(self._item, rows)]))
            before[shard] = rows[0].batch
        was_repeat, self._is_repeat = self._is_repeat, True
        try:
            answers = self._queue.send_batches(self._generation, batches)
        except DataError as error:  # which row it is shows when they are sent one by one; other shards may have theirs
            found, was_repeat = self._queue.last_batches(self._generation), True
            answers = [found[one.shard] if found[one.shard] >= one.number else error for one in batches]
        stored, back, lost = 0, list[tuple[list[Row], SequencerError | None]](), dict[int, int]()
        for (shard, rows), one, answer in zip(self._open, batches, answers, strict=True):
            if answer is None or (isinstance(answer, int) and answer >= one.number):
                if answer is not None and not was_repeat:
                    self._outdated(shard, one.number, answer)
                self._sent[shard] = one.number
                stored += len(rows) if answer is None else 0
                continue
            if isinstance(answer, int) and answer < self._sent.get(shard, 0):
                lost[shard] = answer
            back.append((rows, answer if isinstance(answer, SequencerError) else None))
        self._open, self._since, self._is_saved = [], self._batch + 1, False
        self._limit = min(2 * self._limit, ROUND)
        if back:
            self._take_back(back)
        for shard, last in lost.items():
            self._assign_again(shard, last)
        self.sent += stored
        self._forget()
        return stored

    def _item(self, row: Row) -> Item:
        if self._keep_s is not None:
            return row.item
        body, headers = decode_envelope(row.item.envelope)
        return row.item._replace(envelope=orjson.dumps([body, {**headers, ROW: str(row.id)}]))

    def _take_back(self, back: list[tuple[list[Row], SequencerError | None]]) -> None:
        """These rows are not stored. One that was sent alone and refused is held; of others fewer are sent at once."""
        with self._transaction() as execute:
            self._save(execute)
            execute(sql.batches([(0, [row.id for rows, _ in back for row in rows])]), ())
            for rows, error in back:
                if error and len(rows) == 1:
                    execute(sql.HOLD, (error_text(f"{type(error).__name__}: {error}"), rows[0].id))
                    self._log_held(rows[0].item, error)
                elif error:
                    self._limit = min(self._limit, max(len(rows) // 8, 1))

    def _outdated(self, shard: int, known: int, stored: int) -> NoReturn:
        """The shard has a number that this relay never assigned: the tables are older, unless another one leads."""
        with self._transaction() as execute:
            self._save(execute)
        raise RelayOutdated(queue=self._mine[0], part=self._mine[1], shard=shard, known=known, stored=stored)

    def _assign_again(self, shard: int, last: int) -> None:
        """The shard lost what came after this number: all of that which is kept is assigned and sent again."""
        after, rows = 0, None
        while rows is None or rows:
            with self._transaction() as execute:
                self._save(execute)
                rows = rows_of(execute(sql.AFTER, (*self._mine, last, after, ROUND)))
                found = self._queue.shards_of([row.item.group for row in rows])
                ids = [row.id for row, of in zip(rows, found, strict=True) if of == shard]
                if ids:
                    execute(sql.batches([(0, ids)]), ())
            after = rows[-1].id if rows else after
        self._emit("outbox sent again", shard=shard, known=self._sent.get(shard, 0), stored=last)
        self._sent[shard] = last
        with self._transaction() as execute:
            self._save(execute)

    def _rest(self) -> int:
        """Nothing waits: say now and then that this one leads, and look whether a shard lost data."""
        if not self._is_saved or self._clock() - self._wrote_at >= BEAT_S:
            for shard, last in enumerate(self._queue.last_batches(self._generation)):
                if last < self._sent.get(shard, 0):
                    self._assign_again(shard, last)
            with self._transaction() as execute:
                self._save(execute)
            self._forget()
        return 0

    def _forget(self) -> None:
        """Delete rows that were stored long enough ago, at most ROUND at once."""
        if self._keep_s is None:
            return
        now, last = self._clock(), self._batch
        if not self._marks or now - self._marks[-1][0] >= max(self._keep_s / 20, 0.001):
            self._marks.append((now, last))
        over = [mark for mark in self._marks if now - mark[0] >= self._keep_s]
        if not over:
            return
        with self._transaction() as execute:
            self._save(execute)
            ids = [row for (row,) in execute(sql.KEPT, (*self._mine, over[-1][1], ROUND)).fetchall()]
            if ids:
                execute(sql.deletion(ids), ())
        self._marks = self._marks[len(over) - 1 :]

    def _log_held(self, item: Item, error: SequencerError) -> None:
        self._held += 1
        if self._clock() >= self._log_at:
            group = decode_group(item.group)
            self._emit("outbox rows held", error, count=self._held, group=group, id=item.id)
            self._held, self._log_at = 0, self._clock() + HELD_LOG_S

    def _emit(self, name: str, error: BaseException | None = None, **fields: Any) -> None:
        log_event(event(name, self._mine[0], error=error, **fields))

    # -- the database -------------------------------------------------------------------------------------------

    @contextmanager
    def _transaction(self) -> Iterator[Execute]:
        if self._connection is None:
            self._connection = self._connected()
        try:
            yield with_tables(self._connection, self._prefix)[1]
            self._connection.commit()
        except BaseException:
            with suppress(Exception):
                self._connection.rollback()
            raise

    def _connected(self) -> Any:
        connection = self._connect()
        dialect, execute = with_tables(connection, self._prefix)
        listens = [sql.LISTEN] if callable(getattr(connection, "notifies", None)) else []
        for statement in [*sql.SESSION[dialect], *listens]:
            with suppress(Exception):  # MySQL has no time limit, as MariaDB has
                execute(statement, ())
        connection.commit()
        return connection

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        with suppress(Exception):
            connection.close()


def rows_of(cursor: Any) -> list[Row]:
    return [
        Row(number, Item(text_of(grp), text_of(mid), score, bytes(envelope), due, bytes(ledger)), batch)
        for number, grp, mid, score, envelope, due, ledger, batch in cursor.fetchall()
    ]


def chunks(rows: Sequence[Row], shards: Sequence[int]) -> Iterator[tuple[int, list[Row]]]:
    """Rows by shard, in their order, in parts that one call may store."""
    by_shard: dict[int, list[Row]] = {}
    for row, shard in zip(rows, shards, strict=True):
        by_shard.setdefault(shard, []).append(row)
    for shard, found in by_shard.items():
        part, groups = list[Row](), set[str]()
        for row in found:
            if len(part) == CHUNK or (len(groups) == CHUNK_GROUPS and row.item.group not in groups):
                yield shard, part
                part, groups = [], set()
            part.append(row)
            groups.add(row.item.group)
        yield shard, part


def run_until_signal(relays: Sequence[Relay]) -> None:
    """Run each in a thread, until SIGINT or SIGTERM comes or one of them can't go on. For the main thread."""
    stopping = threading.Event()
    threads = [threading.Thread(target=one.run, name=f"sequencer-relay-{part}") for part, one in enumerate(relays)]

    def stop(_number: int, _frame: Any) -> None:
        stopping.set()

    with signals_taken({signal.SIGINT: stop, signal.SIGTERM: stop}):
        for thread in threads:
            thread.start()
        while all(thread.is_alive() for thread in threads) and not stopping.wait(STOP_CHECK_S):
            pass
        for one in relays:
            one.stop()
        for thread in threads:
            thread.join()
