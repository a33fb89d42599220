"""The process of a consumer: its name; the message that it has in hand, for who looks after it; and a child that a
handler forked, which must not become a second consumer.
"""

from __future__ import annotations

import mmap
import os
import random
import socket
import struct
import sys
from contextlib import suppress
from typing import Any, NoReturn

from ..values.message import Message
from ..values.owner import owner_text

GROUP_SIZE = 640
"""In memory the group of the message in hand comes first, its parts with a NUL between two, which no command line
can hold; what is longer than the room is cut.
"""
GROUP_IN_HAND, ID_IN_HAND = struct.Struct(f"{GROUP_SIZE}s"), struct.Struct("384s")
Memory = mmap.mmap | None
"""Where a supervisor reads which message its consumer began last, or nobody does."""


def owner_name() -> str:
    """Who holds a lease, for people: host, process and a few random characters."""
    return owner_text(socket.gethostname(), os.getpid(), random.randrange(16**6))


def note_in_hand(memory: Memory, message: Message | None) -> Message | None:
    """This message is begun, or none is in hand. A plain handler's is written by `threads.py`, without this call."""
    if memory is not None:
        if message is not None:
            note_group(memory, message.group)
        ID_IN_HAND.pack_into(memory, GROUP_SIZE, message.id.encode("utf-8", "surrogateescape") if message else b"")
    return message


def note_group(memory: mmap.mmap, group: tuple[str, ...]) -> tuple[str, ...]:
    """Its group; the id follows."""
    GROUP_IN_HAND.pack_into(memory, 0, "\0".join(group).encode("utf-8", "surrogateescape"))
    return group


class Fork:
    """`count`: how often this process is a copy of another."""

    count = 0


def _count() -> None:
    Fork.count += 1


os.register_at_fork(after_in_child=_count)


def exit_child(error: BaseException | None) -> NoReturn:
    """A handler forked, and this is the child, which came back: it ends here and does not become a second consumer."""
    code: Any = 0
    if isinstance(error, SystemExit):
        code = error.code
    elif error is not None:
        sys.excepthook(type(error), error, error.__traceback__)
        code = 1
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(code or 0)
