"""The links of one client: one for each thread that is at it, lent for the length of a block."""

from __future__ import annotations

import os
from typing import Any

from ..store.replies import Reading
from .alone import Guide
from .endpoint import Endpoint
from .link import Link


class LinkPool:
    """Links for the threads of one client: taken, used, put back. The last one back is taken first, while warm.

    No lock: a list's `append` and `pop` are each one step for all threads.
    """

    def __init__(self, endpoint: Endpoint, guide: Guide | None = None) -> None:
        self.endpoint = endpoint
        self._guide = guide
        self._idle: list[Link] = []
        self._is_closed = False
        self._pid = os.getpid()

    def take(self) -> Link:
        if self._pid != os.getpid():
            # A fork shares its parent's sockets: leave them alone, and start with none.
            self._pid, self._idle = os.getpid(), []
        try:
            return self._idle.pop()
        except IndexError:
            return Link(self.endpoint, self._guide)

    def put(self, link: Link) -> None:
        self._idle.append(link)
        if self._is_closed:  # asked behind: whoever comes last closes it
            self.close()

    def lend(self) -> Lent:
        """A link for the length of a block; what can't be read in it is a DataError."""
        return Lent(self)

    def close(self) -> None:
        self._is_closed = True
        while self._idle:
            try:
                self._idle.pop().close()
            except IndexError:  # another thread was faster
                break


class Lent:
    """A link that is put back at the end of its block."""

    __slots__ = ("_link", "_pool")

    def __init__(self, pool: LinkPool) -> None:
        self._pool, self._link = pool, pool.take()

    def __enter__(self) -> Link:
        return self._link

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self._pool.put(self._link)
        if error is not None:
            Reading(self._pool.endpoint.name).__exit__(kind, error, trace)
