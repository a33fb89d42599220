"""Handling by hand: what a loop over a claim does, in one call; and Ctrl-C in a handler."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

from sequencer import Lease, Message, Sequencer
from sequencer.drain.held_group import HeldGroup
from sequencer.drain.outcome import Decision, Failed
from sequencer.testing import MemoryQueue
from sequencer.values.history import MessageInfo
from sequencer.values.message import Failure

Make = Callable[..., Sequencer]
"""The fixture that makes clients of the test's namespace."""


def failed(group: HeldGroup, delay_s: float | None = None) -> Failed:
    """What a ValueError of the handler makes of the next message of a group."""
    message = group.leased.messages[group.done]
    failure = Failure(message.id, "ValueError", "no", "", message.attempt, 0.0, "me")
    return Failed(message, ValueError("no"), Decision(delay_s), failure)


def fail(_: Message) -> None:
    """A handler that always fails."""
    raise ValueError("no")


def consumed(seq: Sequencer, handler: Callable[[Message], Any] | None = None) -> list[Message]:
    """Handle all that there is: what came, in its order."""
    seen: list[Message] = []

    def handle(message: Message) -> None:
        seen.append(message)
        if handler:
            handler(message)

    seq.consume(handle, until_empty=True)
    return seen


def drain(seq: Sequencer) -> list[Any]:
    """Handle all that there is. Returns the bodies."""
    return [message.body for message in consumed(seq)]


def got(queue: Sequencer | MemoryQueue, group: Any, id: str) -> MessageInfo:
    """What is known of a message, of which something is."""
    info = queue.get(group, id)
    assert info is not None
    return info


def ack_each(lease: Lease) -> list[Any]:
    """Acknowledge each message of a lease in its turn. Returns their bodies."""
    bodies = []
    for message in lease:
        lease.ack(message)
        bodies.append(message.body)
    return bodies


def drain_once(seq: Sequencer) -> list[Any]:
    """Claim once, and acknowledge what came. Returns the bodies."""
    with seq.claim() as lease:
        return ack_each(lease)


def ctrl_c() -> None:
    """What a handler meets at Ctrl-C where the program hears that by itself: the consumer ends in the middle of it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.raise_signal(signal.SIGINT)
