"""The message that a consumer began last: in memory that its supervisor reads, also when it has died.

Nothing is sent for that. It takes 0.1 us before each handler, and as much where the group is another one: 4 % of the
processor time of a consumer whose handlers do nothing. Between batches, and while a consumer waits, there is none.
"""

from __future__ import annotations

import mmap
import os
from contextlib import suppress

from ...consume.forks import GROUP_SIZE, ID_IN_HAND, Memory
from ...drain.consumer_events import name_of
from ...store.replies import text
from ...texts.commands import command
from ..handlers.printing import memory_file
from ..service_events import Begun

SIZE = GROUP_SIZE + ID_IN_HAND.size


class InHand:
    """The memory of one consumer of a queue, as its supervisor has it; `fd` goes to the consumer. Raises OSError."""

    def __init__(self, queue: str, namespace: str) -> None:
        self._queue, self._namespace = queue, namespace
        self.fd, self._last = memory_file("sequencer-in-hand"), Begun()
        os.write(self.fd, bytes(SIZE))

    @property
    def begun(self) -> Begun:
        """The message; without a command where its group was cut, which none of our clients made."""
        if self.fd < 0:
            return self._last
        data = os.pread(self.fd, SIZE, 0)
        group, message_id = (text(data[part].rstrip(b"\0")) for part in (slice(GROUP_SIZE), slice(GROUP_SIZE, None)))
        if not message_id:
            return Begun()
        parts, is_whole = tuple(group.split("\0")), data[GROUP_SIZE - 1] == 0
        see = command("explain", self._queue, *parts, namespace=self._namespace) if is_whole else ""
        return Begun(name_of(parts, message_id), see)

    def close(self) -> None:
        """Nobody writes any more. What was there last is still known."""
        if self.fd >= 0:
            self._last = self.begun
            os.close(self.fd)
            self.fd = -1


def mapped(fd: int | None) -> Memory:
    """The memory in its consumer; the descriptor is closed, so that no command inherits it."""
    if fd is None:
        return None
    try:
        with suppress(OSError, ValueError):
            return mmap.mmap(fd, SIZE)
        return None
    finally:
        os.close(fd)
