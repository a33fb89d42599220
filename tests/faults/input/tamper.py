"""A socket between client and server that damages one chunk of what the server answers."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any


class Tamper:
    """A socket in front of the server's that changes the n-th chunk of replies, and closes after a change."""

    def __init__(self, path: Path, server: str, position: int, change: Callable[[bytes], bytes]) -> None:
        self.path, self._server, self._change = path, server, change
        self._left = position
        self._lock = threading.Lock()
        self._ends: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._start(self._accept)

    def _start(self, work: Callable[..., None], *arguments: Any) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        with self._lock:
            self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                with self._lock:
                    self._ends += (client, server)
                server.connect(self._server)
                self._start(self._pass, client, server, False)
                self._start(self._pass, server, client, True)

    def _pass(self, source: socket.socket, to: socket.socket, is_reply: bool) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                is_changed = is_reply and self._is_next()
                to.sendall(self._change(data) if is_changed else data)
                if is_changed:
                    break
        _shut(source, to)

    def _is_next(self) -> bool:
        with self._lock:
            self._left -= 1
            return self._left == 0

    @property
    def is_done(self) -> bool:
        """Whether a chunk was changed."""
        return self._left <= 0

    def close(self) -> None:
        """Stop accepting and end every connection."""
        _shut(self._listener, *self._ends)
        for thread in self._threads:
            thread.join(timeout=2.0)
        for end in (self._listener, *self._ends):
            end.close()
        self.path.unlink(missing_ok=True)


def _shut(*ends: socket.socket) -> None:
    for end in ends:
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
