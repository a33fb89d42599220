"""What went wrong in one trial of a promise, from what its processes wrote down. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sequencer.texts.words import many

from ..load.order_check import Handled, check_history
from .crew import Happened, Planned


def faults(
    messages: Sequence[Planned],
    handled: Sequence[Handled],
    *,
    of: Callable[[Planned], str] | None = None,
    begun: Sequence[Handled] = (),
) -> str:
    """Losses, disorder and overlaps, in words. Pure.

    `of` names the sequence of a message, else it is its group. `begun`: runs that a kill ended; they handled nothing.
    """
    by_name = {(one.group, one.id): one for one in messages}
    known = [
        record._replace(stamp=by_name[record.group, record.id].number, score=0.0, token=0)
        for record in [*handled, *begun]
        if (record.group, record.id) in by_name
    ]
    verdict = check_history(by_name, known)
    lost = by_name.keys() - {(record.group, record.id) for record in handled}
    disorder = verdict.order_violations
    if of:
        sequences = [record._replace(group=of(by_name[record.group, record.id])) for record in known]
        disorder = check_history({(of(one), one.id) for one in messages}, sequences).order_violations
    found = [f"{len(lost)} not handled"] if lost else []
    found += [f"{disorder} out of order"] if disorder else []
    return ", ".join([*found, many(verdict.overlaps, "overlap")] if verdict.overlaps else found)


def repeats(handled: Sequence[Handled]) -> int:
    """Runs beyond the first of each message."""
    return len(handled) - len({(record.group, record.id) for record in handled})


def cut_short(happened: Happened, killed: dict[str, float]) -> list[Handled]:
    """The handler runs that a kill ended, as if they ended then. Pure."""
    ended = {(one.group, one.id, one.consumer) for one in [*happened.handled, *happened.failed]}
    return [
        Handled(group, message_id, 0.0, 0, 0, began, killed[consumer], consumer)
        for group, message_id, began, consumer in happened.began
        if consumer in killed and (group, message_id, consumer) not in ended
    ]


def names(messages: Sequence[Planned]) -> set[tuple[str, str]]:
    """(group, id) of each."""
    return {(one.group, one.id) for one in messages}
