"""What a handler of batches gets. It holds messages, and notes how far they are done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, overload

from ..errors import BodyInvalid
from .message import Body_co, Message


class Batch(Sequence[Message[Body_co]], Generic[Body_co]):
    """Messages of one group, in order. When the handler returns, all of them are acknowledged.

    Where it raises, or is interrupted, those before the first one that is not `done` are acknowledged, and the failure
    is that one's; of a batch that is done, the last one's. A process that is killed acknowledges none.
    """

    def __init__(self, messages: Sequence[Message[Body_co]]) -> None:
        self._messages = tuple(messages)
        self.done_count = 0
        """How many are done, from the first on."""

    def done(self, message: Message[Any]) -> None:
        """This message is done, and all before it. Raises ValueError for one of another batch."""
        for position in range(self.done_count, len(self)):
            if self._messages[position].id == message.id:
                self.done_count = position + 1
                return
        if all(one.id != message.id for one in self._messages):
            raise ValueError(f"message {message.id!r} is not in this batch")

    def fit(self, fitted: Callable[[Message[Any]], Message[Any]]) -> None:
        """Make each message this. The batch ends before the first one of which that raises BodyInvalid; it is raised
        for the first of all.
        """
        found = list[Message[Any]]()
        for message in self._messages:
            try:
                found.append(fitted(message))
            except BodyInvalid:
                if not found:
                    raise
                break
        self._messages = tuple(found)

    @property
    def failing(self) -> Message[Body_co]:
        """Whose failure it is, if the handler fails now."""
        return self._messages[min(self.done_count, len(self) - 1)]

    @property
    def group(self) -> tuple[str, ...]:
        """The parts of its group, as text."""
        return self._messages[0].group

    @overload
    def __getitem__(self, index: int) -> Message[Body_co]: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Message[Body_co], ...]: ...
    def __getitem__(self, index: int | slice) -> Message[Body_co] | tuple[Message[Body_co], ...]:
        return self._messages[index]

    def __len__(self) -> int:
        return len(self._messages)

    def __repr__(self) -> str:
        return f"<batch of {len(self)}, {self.done_count} done>"
