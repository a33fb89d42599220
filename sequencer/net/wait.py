"""How an idle consumer waits: blocked on the dispatch lists, and no longer than it should."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import redis

from ..calls.call import UNDONE, Call
from ..calls.claim import Claimed
from ..errors import SequencerError
from ..settings.pace import IDLE_S, STOP_CHECK_S
from ..store.keys import ShardKeys
from .endpoint import CALL_TIMEOUT_S, Endpoint
from .link import Guide, Link, receive
from .refusals import translate


class Waiter:
    """Blocks on the dispatch lists, so that an idle consumer costs two commands in IDLE_S and starts at once.

    A claim may follow the BLPOP on its connection: the server carries it out as soon as the BLPOP is over, so that a
    message is on its way to the consumer without another round trip.

    The server looks at the timeouts of blocked clients about ten times a second only. A wait that must end sooner is
    ended here, by CLIENT UNBLOCK from the other link, so that a hint popped at that moment is not lost. In front of it
    goes a write that changes nothing: while writes are paused (CLIENT PAUSE, a failover) it waits, and the other behind
    it, as Redis 7.0 dies of an UNBLOCK for a client that the pause holds.
    """

    def __init__(
        self, endpoint: Endpoint, shards: Sequence[ShardKeys], other: Link, guide: Guide | None = None
    ) -> None:
        """The other link does what the guide asks for; this one brings its generation."""
        self.link = Link(endpoint, guide, only_follows=True)
        self._lists, self.other = [keys.dispatch for keys in shards], other
        self._write = ("HDEL", shards[0].leases, "")
        self._client_id: tuple[Any, int] | None = None
        self.hint: Any = None  # the list and the group of the hint that ended the last wait, if one did

    def wait(
        self,
        seconds: float,
        should_stop: Callable[[], bool],
        claim: Call[Claimed] | None = None,
        check_s: float = STOP_CHECK_S,
    ) -> Claimed | None:
        """Until a hint, the end of `seconds`, or a stop; returns what the claim took. Raises ServerUnavailable."""
        self.hint = None
        if seconds <= 0:
            return None
        calls = [claim] if claim else []
        try:
            connection = self._known_connection()
            until = time.monotonic() + seconds
            # A whole wait is left to the server; it may take 0.1 s longer, too long where something is due then.
            is_exact = seconds < IDLE_S
            self.link.post(calls, behind=("BLPOP", *self._lists, f"{max(seconds, 1.0):.3f}"))
            while not connection.can_read(timeout=max(0.0005, min(check_s, until - time.monotonic()))):
                now = time.monotonic()
                if should_stop() or (is_exact and now >= until):
                    unblock = "CLIENT", "UNBLOCK", self._client_id[1]  # type: ignore[index]
                    self.other.commands([self._write, unblock])
                    break
                if now >= until + CALL_TIMEOUT_S:
                    raise redis.TimeoutError
            (popped,) = receive(connection, 1)
            self.hint = popped if isinstance(popped, list) else None
            (claimed,) = self.link.parsed(calls, self.link.collect(calls)) or (None,)
            if isinstance(claimed, SequencerError):
                raise claimed
            if isinstance(popped, Exception) and not (claimed and claimed is not UNDONE and claimed.groups):
                raise popped
        except BaseException as error:
            self.link.close()  # an answer may still be on its way
            if isinstance(error, redis.RedisError | OSError):
                raise translate(error, self.link.endpoint.name) from error
            raise
        return None if claimed is UNDONE else claimed

    @property
    def hinted(self) -> int | None:
        """Which list the last hint came from, if one did."""
        return self._lists.index(self.hint[0].decode()) if self.hint else None

    def push_back(self) -> None:
        """Nobody here has a use for the hint that was popped: it may wake another consumer."""
        if self.hint:
            self.link.commands([("RPUSH", *self.hint)])

    def _known_connection(self) -> Any:
        """The link's connection, whose number is known to who is to unblock it."""
        connection = self.link.connection()
        if self._client_id is None or self._client_id[0] is not connection:
            # Of a cluster's nodes, that of the list: what has no key goes with the command in front of it.
            *_, number = self.link.commands([("EXISTS", self._lists[0]), ("CLIENT", "ID")])
            connection = self.link.connection()  # the commands have replaced one that had gone stale
            self._client_id = (connection, number)
        return connection
