"""A proxy between client and server that can lose replies: the request is carried out, the answer never comes."""

from __future__ import annotations

import socket
import threading
from pathlib import Path


class LossyProxy:
    """Listens on a Unix socket and passes bytes on; while `losing`, or as often as `to_lose`, a
    reply closes the client's connection instead."""

    def __init__(self, path: Path, server: str) -> None:
        self.losing = False
        self.to_lose = 0
        """How many of the next replies to lose."""
        self.lost = 0
        self._server = server
        self._sockets: list[socket.socket] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self.url = f"unix://{path}"
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._server)
            self._sockets += [client, server]
            for pump in (self._requests, self._replies):
                self._threads.append(threading.Thread(target=pump, args=(client, server), daemon=True))
                self._threads[-1].start()

    def _requests(self, client: socket.socket, server: socket.socket) -> None:
        self._pump(client, server, is_reply=False)

    def _replies(self, client: socket.socket, server: socket.socket) -> None:
        self._pump(server, client, is_reply=True)

    def _pump(self, source: socket.socket, target: socket.socket, *, is_reply: bool) -> None:
        try:
            while data := source.recv(65536):
                if is_reply and (self.losing or self.to_lose > 0):
                    self.lost, self.to_lose = self.lost + 1, self.to_lose - 1
                    break
                target.sendall(data)
        except OSError:
            pass
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for end in self._sockets:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue
        for thread in self._threads:
            thread.join(5.0)
        for end in self._sockets:
            end.close()
