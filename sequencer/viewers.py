"""Clients of many queues, for what looks at all of them: the dashboard, metrics."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from functools import cached_property
from typing import Any

from .client import QueueGone, Sequencer, find_server, list_queues
from .values.checks import check_name

__all__ = ["QueueGone", "Viewers"]


class Viewers:
    """Of the queues that are named, or of all of a namespace. Nothing connects before the first call; threads may share
    it. None of the clients registers again what was deleted: it raises QueueGone. Raises ConfigurationError for a wrong
    name.
    """

    def __init__(self, names: Iterable[str] | None, redis: Any, namespace: str) -> None:
        self.namespace = check_name("namespace", namespace)
        self._fixed = None if names is None else [check_name("queue", name) for name in names]
        self._redis, self._lock = redis, threading.Lock()
        self._clients: dict[str, Sequencer] = {}

    @cached_property
    def _server(self) -> Any:
        return find_server(self._redis)

    def stored(self) -> list[str]:
        """The names that the server has. Raises ServerError."""
        return list_queues(self._server, self.namespace)

    def names(self) -> list[str]:
        """Raises ServerError."""
        return self.stored() if self._fixed is None else self._fixed

    @property
    def known(self) -> list[str]:
        """The names that can be given without the server."""
        return [*self._clients] if self._fixed is None else self._fixed

    def client(self, name: str) -> Sequencer:
        with self._lock:
            if name not in self._clients:
                self._clients[name] = Sequencer(name, self._server, namespace=self.namespace)
                self._clients[name]._session.restores = False
            return self._clients[name]

    def forget(self) -> None:
        """Close all connections, as at the end, or where a queue was deleted and perhaps made again."""
        with self._lock:
            clients, self._clients = self._clients, {}
        for client in clients.values():
            client.close()
