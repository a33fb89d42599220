"""Sessions over the model of registry and shards, which answers at once: for unit tests, with no server and no time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from sequencer.net.blocking import finish
from sequencer.queue.session import Session
from sequencer.settings.options import queue_options

from .registry import ModelAlone, ModelServer


class ModelNet:
    """A net over a model server."""

    name, is_cluster = "the model", False

    def __init__(self, server: ModelServer) -> None:
        self.server, self.slept = server, list[float]()
        self.one = ModelAlone(server)

    @property
    def asked(self) -> list[str]:
        return [str(words[0]) for words in self.one.asked]

    async def read(self, commands: Any) -> list[Any]:
        return await self.one.read(commands)

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[ModelAlone]:
        yield self.one

    @asynccontextmanager
    async def once(self) -> AsyncIterator[None]:
        yield

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


def session(net: Any, **options: Any) -> Session:
    return Session(queue_options("q", "n", options), net)


def made(**options: Any) -> tuple[ModelServer, ModelNet, Session]:
    server = ModelServer()
    net = ModelNet(server)
    return server, net, session(net, **options)


def connected(server: ModelServer, **options: Any) -> Session:
    """Another client, which has used the queue."""
    one = session(ModelNet(server), **options)
    finish(one.shards(register=True))
    return one


def looked(net: ModelNet, seq: Session) -> list[str]:
    """What is asked on a new connection."""
    net.one.asked.clear()
    finish(seq.refresh(net.one))
    return net.asked
