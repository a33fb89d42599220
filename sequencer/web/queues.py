"""The clients of the queues that a dashboard shows, shared by all requests."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException

from ..client import QueueGone, Sequencer, find_server, list_queues, viewer
from ..values.checks import check_name

if TYPE_CHECKING:
    from ..metrics import QueueCollector

__all__ = ["QueueGone", "Queues"]


class Queues:
    """Those that are named, or all of a namespace. Nothing connects before the first request."""

    def __init__(self, names: Iterable[str] | None, redis: Any, namespace: str) -> None:
        self.namespace = check_name("namespace", namespace)
        self._fixed = None if names is None else [check_name("queue", name) for name in names]
        self._redis = redis
        self._clients: dict[str, Sequencer] = {}
        self._lock = threading.Lock()

    @cached_property
    def server(self) -> Any:
        return find_server(self._redis)

    @cached_property
    def collector(self) -> QueueCollector:
        """Raises ModuleNotFoundError without the extra `metrics`."""
        from ..metrics import QueueCollector

        return QueueCollector(self._fixed, self.server, namespace=self.namespace)

    def asked(self) -> list[str]:
        """The names that the server has. Raises ServerError."""
        return list_queues(self.server, self.namespace)

    def close(self) -> None:
        self.forget()
        if "collector" in vars(self):
            self.collector.close()

    def names(self) -> list[str]:
        """Raises ServerError."""
        return self._fixed if self._fixed is not None else self.asked()

    def client(self, name: str, *, is_listed: bool = False) -> Sequencer:
        """`is_listed`: it is one of `names`. Raises HTTPException 404 for a queue that is not shown, ServerError."""
        client = self._clients.get(name)
        if client is None:
            if not is_listed and name not in self.names():
                raise HTTPException(404, f"There is no queue {name} here.")
            with self._lock:
                client = self._clients.setdefault(name, viewer(name, self.server, namespace=self.namespace))
        return client

    def forget(self) -> None:
        """A queue was deleted, and perhaps made again: its client found another one than it knew."""
        with self._lock:
            clients, self._clients = self._clients, {}
        for client in clients.values():
            client.close()
