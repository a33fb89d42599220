"""Inbox: what a handler writes in its own transaction happens once, and only under the newest lease of its group."""

from __future__ import annotations

from typing import Any

from ..errors import LeaseLost
from ..store.group import encode_group
from ..values.message import Message
from . import sql
from .drivers import with_tables

ROW = "outbox-row"
"""The header by which a message names the row of the outbox that is kept until it is done."""


class Inbox:
    """Remembers in the business database which messages were handled. Threads may share it."""

    def __init__(self, *, prefix: str = "sequencer_") -> None:
        self._prefix = prefix

    def first(self, connection: Any, message: Message[Any]) -> bool:
        """Whether this message was not handled before; call it first in the handler's transaction, and return where it
        is False.

        `connection` as of Outbox.append. A row says so once that transaction commits, as long as it is kept (`clean`).
        Transactions of one group wait for each other here. Raises LeaseLost where a newer lease of the group has been
        here: this consumer stood still for longer than its lease; let it roll back.
        """
        dialect, execute = with_tables(connection, self._prefix)
        where = message.queue, encode_group(message.group)
        execute(sql.FENCE[dialect], (*where, message.token))
        ((newest,),) = execute(sql.FENCED[dialect], where).fetchall()
        if newest > message.token:
            raise LeaseLost(group=message.group, token=message.token)
        is_first: bool = execute(sql.FIRST[dialect], (*where, message.id)).rowcount == 1
        if ROW in message.headers:
            execute(sql.DONE, (int(message.headers[ROW]), *where, message.id))
        return is_first

    def clean(self, connection: Any, queue: str, older_than_s: float = 7 * 86_400.0, limit: int = 10_000) -> int:
        """Forget messages of a queue that were handled `older_than_s` ago, the oldest first, and return how many; the
        caller commits, and calls again until it is 0. Those of one moment count as one of `limit`.

        A message that comes again after that is handled again: let this be longer than any failover and dedup window.
        """
        _, execute = with_tables(connection, self._prefix)
        found = execute(sql.OLD, (queue, older_than_s, limit)).fetchall()
        return int(execute(sql.FORGET, (queue, found[-1][0])).rowcount) if found else 0
