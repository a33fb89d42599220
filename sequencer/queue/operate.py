"""What changes a queue by hand: messages that wait, pauses, outages. Operations over a net; groups that halt: `groups`.

Each change is one script, so that nothing is ever half done.
"""

from __future__ import annotations

from typing import Any

from .. import calls
from ..errors import EffectsSaved, InvalidScore, InvalidTime, MessageBusy, MessageNotFound, OutcomeUnknown
from ..store.envelope import encode_due, encode_id, encode_score
from ..store.group import decode_group, encode_group
from ..store.item import Group, Id, Score
from ..values.durations import Duration
from ..values.history import Swept
from .session import Session
from .state import lease_fields

# -- messages and timers ---------------------------------------------------------------------------------------


async def cancel(session: Session, group: Group, id: Id) -> None:
    """Remove a pending message, so that it is not handled.

    If a consumer had it in progress when its lease expired, a handler may have begun; that consumer is refused when it
    wakes up. Raises MessageNotFound, MessageBusy if a consumer may have it in progress, and EffectsSaved if some of its
    steps took effect.
    """
    await _update(session, encode_group(group), encode_id(id), "", "")


async def reschedule(
    session: Session,
    group: Group,
    id: Id,
    *,
    delay: Duration | None = None,
    at: Score | None = None,
    score: Score | None = None,
) -> None:
    """Give a pending message another time, `delay` seconds from now or `at`, and fresh attempts.

    It takes its place as if it arrived now. If its old time was its score, the new time becomes its score; otherwise
    the score stays, unless given. In a sequence the score can't change. Raises InvalidTime, MessageNotFound, and
    MessageBusy if a consumer may be handling it.
    """
    due = encode_due(delay, at)
    if not due:
        raise InvalidTime("time_missing")
    key, message_id = encode_group(group), encode_id(id)
    if score is not None and (await session.policy()).sequence:
        raise InvalidScore("number_fixed")
    await _update(session, key, message_id, "due" if score is None else encode_score(score), due)


async def _update(session: Session, group: str, message_id: str, score: str, due: str) -> None:
    about: dict[str, Any] = {"id": message_id, "group": decode_group(group), **session.names}
    keys = await session.keys_of(group, "operate")
    facts = await session.ask(calls.inspect(keys, group, message_id))
    if not facts.member:
        raise MessageNotFound("not_pending", **about)
    answer = await session.net.ask(calls.update(keys, group, message_id, score, due))
    if answer.value == "done":
        return
    if answer.value == "missing" and answer.is_repeat and not score:
        return  # the first attempt, whose answer was lost, had removed it
    if answer.is_repeat and score:  # perhaps refused because the first attempt did it
        raise OutcomeUnknown(id=message_id)
    if answer.value == "missing":
        raise MessageNotFound("not_pending", **about)
    if answer.value == "effects":
        raise EffectsSaved("cancel_refused", **about)
    raise MessageBusy(**about, **lease_fields(facts))


# -- pauses ----------------------------------------------------------------------------------------------------


async def pause(session: Session, group: Group | None = None) -> bool:
    """Pause a group, or without one the whole queue, from the next claim on; running handlers finish.

    Appends go on. The pause survives restarts. False if it was already paused. A group may be paused before it has
    messages.
    """
    return await _pause(session, group, True)


async def unpause(session: Session, group: Group | None = None) -> bool:
    """Let a paused group, or the whole queue, go on. False if it was not paused."""
    return await _pause(session, group, False)


async def _pause(session: Session, group: Group | None, is_paused: bool) -> bool:
    key = "" if group is None else encode_group(group)
    shards = await session.shards("operate", register=is_paused)  # to let go on what was never used changes nothing
    if group is not None:
        shards = [await session.keys_of(key)]
    return any((await session.net.ask_all([calls.pause(keys, key, is_paused) for keys in shards])).value)


# -- outages ---------------------------------------------------------------------------------------------------


async def probe_outage(session: Session) -> bool:
    """During an outage, attempt one message now. False if no outage holds the queue back."""
    shards = await session.shards("operate")
    ended = (await session.net.ask_all([calls.outage(keys, "probe") for keys in shards])).value
    return any(one.status == "probing" for one in ended)


# -- what is kept ----------------------------------------------------------------------------------------------


async def sweep(session: Session) -> Swept:
    """Delete what the queue's policy no longer keeps: history by `history_window` and `history_cap`, dead letters by
    `dead_window` and `dead_cap`, the oldest first.

    History is also cleaned as messages end; this is for idle queues, and for dead letters. A dead letter with an
    unresolved step is kept. Harmless to repeat. Raises ServerError.
    """
    history = dead = 0
    for keys in await session.shards("operate"):
        passed, is_more = 0, True
        while is_more:
            done = await session.ask(calls.sweep(keys, passed))
            history, dead = history + done.history, dead + done.dead
            passed, is_more = passed + done.passed, done.is_more
    return Swept(history, dead)
