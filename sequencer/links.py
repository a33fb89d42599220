"""The links of one client: one for each thread that is at it, lent for the length of a block."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

from .connection import Endpoint, Reading
from .link import Link


class Links:
    """Links for the threads of one client: taken, used, put back. The last one back is taken first, while warm."""

    def __init__(self, endpoint: Endpoint, on_connect: Callable[[Link], None] | None = None) -> None:
        self.endpoint = endpoint
        self._on_connect = on_connect
        self._idle: list[Link] = []
        self._lock = threading.Lock()
        self._is_closed = False
        self._pid = os.getpid()

    def take(self) -> Link:
        if self._pid != os.getpid():
            # A fork shares its parent's sockets: leave them alone, and start with none.
            self._pid, self._idle, self._lock = os.getpid(), [], threading.Lock()
        with self._lock:
            return self._idle.pop() if self._idle else Link(self.endpoint, self._on_connect)

    def put(self, link: Link) -> None:
        with self._lock:
            if not self._is_closed:
                self._idle.append(link)
                return
        link.close()

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for link in idle:
            link.close()


class Lent:
    """One of these links for the length of a block; what can't be read in it is a DataError."""

    __slots__ = ("_link", "_links", "_name")

    def __init__(self, links: Links, name: str) -> None:
        self._links, self._link, self._name = links, links.take(), name

    def __enter__(self) -> Link:
        return self._link

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self._links.put(self._link)
        if error is not None:
            Reading(self._name).__exit__(kind, error, trace)
