"""One append of a blocking client, on a flat path, and one on a caller's pipeline."""

from __future__ import annotations

import weakref
from typing import Any

from .. import calls
from ..errors import ServerUnavailable
from ..queue.append import receipt_of, refuse_unknown
from ..queue.session import Session
from ..store.item import Item
from ..store.keys import ShardKeys, shard_of
from ..values.message import Receipt
from .blocking import BlockingNet, finish
from .link import in_utf8


class Appender:
    """The appending half of a Sequencer; what it raises is said there."""

    def __init__(self, session: Session, net: BlockingNet) -> None:
        self._session, self._net, self._wait = session, net, session.options.wait
        self._batches: dict[_Batch, None] = {}
        """Those of which no append is known to be stored, in their order."""

    def append(self, item: Item, *, replace: bool = False, backlog: bool = False) -> Receipt:
        """Not an operation: as a coroutine it would cost a fifth more."""
        call = calls.append(self._keys(item), [item], on_conflict="replace" if replace else "none", backlog=backlog)
        with self._net.link() as link:
            try:
                (outcomes,) = link.run((call,), wait=self._wait)
            except ServerUnavailable as error:
                refuse_unknown(item.id, error, replaces=replace)
                raise
            confirmed = link.confirmed
        return receipt_of(item, outcomes, confirmed, self._wait, replace=replace)

    def append_to(self, pipeline: Any, item: Item, *, replace: bool = False) -> Receipt:
        """Put it on a caller's pipeline: nothing is sent here, so it is no operation."""
        self._net.reconnect_if_closed()
        batch = self._batch_of(pipeline)
        call = calls.append(self._keys(item), [item], on_conflict="error_replace" if replace else "error")
        # The caller's client may have another encoding.
        pipeline.execute_command(*map(in_utf8, call.eval_command(self._session.generation)), batch=batch)
        return Receipt(item.id, None, None)

    def _batch_of(self, pipeline: Any) -> _Batch:
        """Where the server did not take one that is over, its generation was perhaps refused, and only its caller was
        told:
        then the queue is looked at first.
        """
        known = list(self._batches)
        if found := next((one for one in known if one.is_of(pipeline)), None):
            return found
        over = [one for one in known if one.is_over]
        if not all(one.is_stored for one in over):
            self._shards()
            finish(self._session.ask_generation())
        for one in over:
            self._batches.pop(one, None)
        new = _Batch(pipeline)
        self._batches[new] = None
        pipeline.set_response_callback(b"EVAL", _answered)
        return new

    def _shards(self) -> list[ShardKeys]:
        return self._session.known_shards() or finish(self._session.shards("append"))

    def _keys(self, item: Item) -> ShardKeys:
        shards = self._shards()
        return shards[shard_of(item.group, len(shards))]


class _Batch:
    """What goes over a caller's pipeline at once."""

    __slots__ = ("_commands", "_pipeline", "is_stored")

    def __init__(self, pipeline: Any) -> None:
        self._pipeline = weakref.ref(pipeline)
        self._commands = pipeline.command_stack
        """The pipeline's own list: behind its `execute` it has another."""
        self.is_stored = False
        """Whether the server took an append of it."""

    def is_of(self, pipeline: Any) -> bool:
        """Whether what this pipeline sends next is this."""
        return not self.is_stored and pipeline.command_stack is self._commands

    @property
    def is_over(self) -> bool:
        """Whether it was sent, or never will be."""
        pipeline = self._pipeline()
        return pipeline is None or not self.is_of(pipeline)

    def stored(self) -> None:
        """The server took an append of it; what it held is not kept."""
        self.is_stored, self._commands = True, None


def _answered(reply: Any, *, batch: _Batch | None = None, **_: Any) -> Any:
    """The driver calls it with what our scripts answer on a pipeline; not with an error."""
    if batch:
        batch.stored()
    return reply
