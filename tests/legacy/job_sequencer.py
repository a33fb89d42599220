"""Messages of an order, drained in the order of their times: what the keys `job_sequence:*` were for (004)."""

from collections.abc import Callable
from typing import Any

from sequencer import Message, Sequencer

LOCK_S = 3600.0

seq = Sequencer("order_job", group_by=("user_id", "order_id"), id_by="req_id", score_by="ts")


def splice(data: dict[str, Any]) -> tuple[bool, str, int | None]:
    """DataGroupJobSplicing: store one message of a group; whether it is new, its id, and the size of the group."""
    receipt = seq.append(data, backlog=True)
    return not receipt.duplicate, receipt.id, receipt.backlog


def due_groups() -> list[tuple[str, ...]]:
    """getJobGroupKeys: groups that have messages and are not locked."""
    return [info.group for info in seq.groups("due")]


def drain(handle: Callable[[Message], Any], group: tuple[str, ...]) -> int:
    """GroupDatasHandle: lock this group, and handle what it has, in order; how much that was.

    Nothing where it is not due. The first error stops it and is raised. The message and what is behind it stay, and the
    lock is released.
    """
    count = 0
    with seq.claim(group=group, lease=LOCK_S) as lease:
        for message in lease:
            handle(message)
            lease.ack(message)
            count += 1
    return count
