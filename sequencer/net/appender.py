"""One append of a blocking client, on a flat path, and one on a caller's pipeline."""

from __future__ import annotations

from typing import Any

from .. import calls
from ..errors import ConfigurationError, ServerUnavailable
from ..queue.append import receipt_of, refuse_unknown
from ..queue.session import Session
from ..store.group import shard_of
from ..store.item import Item
from ..store.keys import ShardKeys
from ..values.message import Receipt
from .blocking import BlockingNet, finish
from .link import in_utf8


class Appender:
    """The appending half of a Sequencer; what it raises is said there."""

    def __init__(self, session: Session, net: BlockingNet) -> None:
        self._session, self._net, self._wait = session, net, session.options.wait
        self._open: list[Any] | None = None
        """What went last over a caller's pipeline (behind `execute` it has another list), until an append was taken."""

    def append(self, item: Item, *, replace: bool = False, backlog: bool = False) -> Receipt:
        """Not an operation: as a coroutine it would cost a fifth more."""
        shards = self._session.known_shards() or self._shards()
        keys = shards[0] if len(shards) == 1 else self._keys(item)
        call = calls.append(keys, [item], on_conflict="replace" if replace else "none", backlog=backlog)
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
        if self._net.is_cluster:
            raise ConfigurationError("pipeline_in_cluster")
        with self._net.link() as link:
            link.refresh()  # where our connection was lost, so may be what is known of the queue
        stack = pipeline.command_stack
        if self._open is not None and self._open is not stack:  # perhaps refused for its generation: its caller knows
            self._shards()
            finish(self._session.ask_generation())
        self._open = stack
        pipeline.set_response_callback(b"EVAL", self._answered)
        call = calls.append(self._keys(item), [item], on_conflict="error_replace" if replace else "error")
        # The caller's client may have another encoding.
        pipeline.execute_command(*map(in_utf8, call.eval_command(self._session.generation)), batch=stack)
        return Receipt(item.id, None, None)

    def _answered(self, reply: Any, *, batch: list[Any] | None = None, **_: Any) -> Any:
        """The driver calls it with what our scripts answer on a pipeline; not with an error."""
        if batch is self._open:
            self._open = None
        return reply

    def _shards(self) -> list[ShardKeys]:
        return self._session.known_shards() or finish(self._session.shards("append"))

    def _keys(self, item: Item) -> ShardKeys:
        shards = self._shards()
        return shards[shard_of(item.group, len(shards))]
