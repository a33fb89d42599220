"""The links of one client: one for each thread that is at it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from .connection import Endpoint
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
