"""The blocking ways to append: one message, on a flat path; many, in chunks; one on a caller's pipeline."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

from .. import calls
from ..errors import ConfigurationError, InvalidMessage, SequencerError, ServerUnavailable, shown
from ..queue.append import (
    CHUNK,
    CHUNK_BYTES,
    CHUNK_GROUPS,
    Chunk,
    Tally,
    append_chunk,
    call_for,
    receipt_of,
    refuse_unknown,
    with_marks,
)
from ..queue.session import Session
from ..store.item import Item, ItemMaker
from ..store.keys import ShardKeys, shard_of
from ..values.message import BatchReceipt, Receipt, Refused
from .blocking import BlockingNet, finish
from .link import in_utf8


class Appender:
    """The appending half of a Sequencer; what it raises is said there."""

    def __init__(self, session: Session, net: BlockingNet, items: ItemMaker) -> None:
        self._session, self._net, self.items, self._wait = session, net, items, session.options.wait
        self._batches: dict[_Batch, None] = {}
        """Those of which no append is known to be stored, in their order."""

    def check(self, *arguments: Any) -> None:
        """Refuse what breaks a rule before the queue is used for the first time: nothing is registered then.

        The server is asked only where the queue may remember which fields make the group.
        """
        if self.items.check(*arguments):
            finish(self._session.take_fields())
            self.items.make(*arguments, is_sequence=None)

    def append(self, item: Item, *, replace: bool = False, backlog: bool = False) -> Receipt:
        """As the operation `queue.append.append`, without its coroutines: that costs a fifth more."""
        call = call_for(self._shards(), item, replace=replace, backlog=backlog)
        with self._net.link() as link:
            try:
                (outcomes,) = link.run((call,), wait=self._wait)
            except ServerUnavailable as error:
                refuse_unknown(item.id, error, replaces=replace)
                raise
            confirmed = link.confirmed
        if outcomes[0].outcome == "refused":
            outcomes = finish(with_marks(self._session, [item], outcomes))
        return receipt_of(item, outcomes, confirmed, self._wait, replace=replace)

    def append_to(self, pipeline: Any, item: Item, *, replace: bool = False) -> Receipt:
        """Put it on a caller's pipeline: nothing is sent here, so it is no operation."""
        self._net.reconnect_if_closed()
        batch = self._batch_of(pipeline)
        shards = self._shards()
        keys = shards[shard_of(item.group, len(shards))]
        call = calls.append(keys, [item], on_conflict="error_replace" if replace else "error")
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

    def append_many(
        self, items: Iterable[Any], on_refused: str, chunk: int | None, *, replace: bool = False
    ) -> BatchReceipt:
        if on_refused not in ("stop", "skip"):
            raise ConfigurationError(f"on_refused={shown(on_refused)} must be 'stop' or 'skip'")
        most = (CHUNK, CHUNK_GROUPS) if chunk is None else (chunk, chunk)
        if isinstance(chunk, bool) or not isinstance(most[0], int) or not 1 <= most[0] <= calls.MAX_APPEND:
            raise ConfigurationError(f"chunk={shown(chunk)} must be a whole number from 1 to {calls.MAX_APPEND}")
        tally = Tally(on_refused)
        chunks = _Chunks(self._chunks(items, *most), is_eager=isinstance(items, list | tuple))
        how: dict[str, Any] = {"on_refused": on_refused, "replace": replace, "meanwhile": chunks.prepare}
        try:
            while (one := chunks.take()) is not None:
                outcomes = list[calls.ItemOutcome]()
                if tally.sends(one):
                    outcomes = finish(append_chunk(self._session, one.items, **how))
                tally.add(one, outcomes)
        except SequencerError as error:
            error.earlier = error.earlier or tally.receipt()
            raise
        return tally.receipt()

    def _check_of(self, value: Any) -> None:
        """As `check`, of an item of many."""
        if self.items.check_of(value):
            finish(self._session.take_fields())
            self.items.make_of(value, is_sequence=None)

    def _shards(self) -> list[ShardKeys]:
        return self._session.known_shards() or finish(self._session.shards_to_append())

    def _chunks(self, items: Iterable[Any], size: int, most_groups: int) -> Iterator[Chunk]:
        numbered, is_over = enumerate(items), False
        held: tuple[int, Item] | None = None
        while not is_over:
            chunk, groups, count = Chunk([], [], []), set[str](), 0
            found, indexes, make_of = chunk.items, chunk.indexes, self.items.make_of
            is_over = held is None
            if held is not None:
                index, item = held
                indexes.append(index)
                found.append(item)
                groups.add(item.group)
                held, count = None, _bytes_of(item)
            is_sequence = self._session.known_sequence()
            for index, value in itertools.islice(numbered, size - len(found)):
                is_over = False
                try:
                    if is_sequence is None:
                        self._check_of(value)
                        is_sequence = finish(self._session.is_sequence())
                    item = make_of(value, is_sequence=is_sequence)
                except InvalidMessage as error:
                    chunk.errors.append(Refused(index, error))
                    continue
                group, message_id, _, envelope, _, ledger = item
                # `_bytes_of`, without a call for each
                count += len(envelope) + len(ledger) + len(group) + len(message_id)
                if count > CHUNK_BYTES and found:
                    held = index, item  # how large it is shows only now; it begins the next chunk
                    break
                indexes.append(index)
                found.append(item)
                groups.add(group)
                if len(groups) == most_groups:
                    break
            if not is_over:
                yield chunk


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


def _bytes_of(item: Item) -> int:
    """What a message counts for in a chunk."""
    return len(item.envelope) + len(item.ledger) + len(item.group) + len(item.id)


class _Chunks:
    """Chunks one by one; the next one is made while the server works on the one before, if `is_eager`.

    Only for what can be read again: from an iterator nothing is taken that may then not be sent.
    """

    def __init__(self, chunks: Iterator[Chunk], *, is_eager: bool) -> None:
        self._chunks, self._is_eager = chunks, is_eager
        self._found: list[Chunk | None] = []
        self._error: Exception | None = None

    def prepare(self) -> None:
        """Make the next chunk; an error of it is raised when it is taken."""
        if self._is_eager and not self._found:
            try:
                self._found.append(next(self._chunks, None))
            except Exception as error:
                self._error = error

    def take(self) -> Chunk | None:
        if self._error:
            raise self._error
        return self._found.pop() if self._found else next(self._chunks, None)
