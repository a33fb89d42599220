"""What changes a queue by hand: stuck groups, pauses, messages that wait. Operations over a net.

Each change is one script, so that nothing is ever half done. An operation looks first, and its change is refused by the
script if something else is there by then; it looks again, up to TRIES times.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from .. import calls
from ..calls.net_protocol import Answer
from ..errors import (
    GroupBusy,
    GroupNotFound,
    InvalidScore,
    InvalidTime,
    MessageBusy,
    MessageNotFound,
    NotParked,
    OutcomeUnknown,
    ServerUnavailable,
)
from ..store.envelope import encode_due, encode_id, encode_score
from ..store.failure import decode_failure
from ..store.group import decode_group, encode_group
from ..store.item import Group, Id, Score
from ..store.keys import LaneKeys
from ..store.record import STAMP_DIGITS, readable_message
from ..store.replies import Reading
from ..store.watermark import Sequenced, advance
from ..values.commands import command, id_option
from ..values.message import Message
from ..values.views import Gap
from .explain import explanation, held_by, missing_number
from .session import Session
from .state import is_put_off

TRIES = 5
"""How often to look again when something changed between look and act."""


# -- stuck groups ----------------------------------------------------------------------------------------------


async def resume(session: Session, group: Group) -> bool:
    """Let a parked or waiting group go on now, with fresh attempts. False when it was due already.

    Raises GroupNotFound; GroupBusy when a consumer holds it; NotParked when it waits for its time or for a missing
    number, or is paused.
    """
    key = encode_group(group)
    keys = await session.keys_of(key, register=False)
    await session.allow("operate")
    facts = (await session.net.ask(calls.inspect(keys, key))).value
    policy = await session.fresh_policy()
    with Reading(session.net.name):
        reason = explanation(key, facts, policy).reason
        missing = None if facts.failure else missing_number(facts, policy)
    if reason == "due" and is_put_off(facts.visible_us, facts.now_us):  # by a rule that holds no more
        await session.net.ask(calls.wake(keys, key))
        return True
    if missing:
        raise NotParked(f"group {_name(key)} waits for a missing number (see explain); append it, or skip it")
    done, _ = await _resume(session, keys, key, "")
    return done.status == "resumed"


async def skip(session: Session, group: Group, *, id: Id | None = None, dead_letter: bool = False) -> Message | Gap:
    """Remove the failed head of a group and let the group go on; returns the removed message.

    It is kept until the next skip, and `unskip` puts it back; with `dead_letter` it becomes a dead letter. `id`: only
    if this message is the failed head. In a sequence that waits for a number, step over what is missing instead;
    returns the Gap. A message with such a number is late when it comes after all. Raises GroupNotFound, NotParked when
    its head did not fail or is another than `id`, GroupBusy when a consumer holds it, OutcomeUnknown.
    """
    key, wanted = encode_group(group), None if id is None else encode_id(id)
    keys = await session.keys_of(key, register=False)
    is_sequence = (await session.policy(register=False)).sequence
    await session.allow("operate")
    if is_sequence and (gap := await _skip_gap(session, keys, key, wanted)):
        return gap
    done, member = await _resume(session, keys, key, "dead" if dead_letter else "drop", wanted)
    return readable_message(member, done.score or "nan", done.record, decode_group(key), 0, session.options.queue)


async def _skip_gap(session: Session, keys: LaneKeys, group: str, id: str | None) -> Gap | None:
    """The gap that was skipped; None when the group waits for no number. Raises NotParked where an id is given."""
    seen: tuple[int, int] | None = None
    policy = await session.policy(register=False)
    for _ in range(TRIES):
        facts = (await session.net.ask(calls.inspect(keys, group))).value
        with Reading(session.net.name):
            missing, passed = missing_number(facts, policy), Sequenced.parse(facts.mark)
        if seen is None and (missing is None or facts.failure):
            return None
        if id is not None:
            raise NotParked(f"group {_name(group)} waits for a missing number, and not at {id!r}; leave out the id")
        seen = seen or missing
        if missing != seen or seen is None:
            break  # only what was seen is skipped
        mark = passed.gap_skipped(seen).text()
        done = await session.net.ask(calls.skip_gap(keys, group, facts.head, facts.mark, mark))
        if done.value == "skipped":
            return Gap(decode_group(group), *seen)
        _doubt(done, done.value == "changed", f"numbers {seen[0]} to {seen[1]} were stepped over")
        if done.value == "leased":
            break
    raise GroupBusy(f"group {_name(group)} was changed or taken meanwhile; look again")


async def _resume(
    session: Session, keys: LaneKeys, group: str, ending: calls.Ending, id: str | None = None
) -> tuple[calls.Resumed, str]:
    """What the script did, and the member that it was about. With an ending, that is taken away."""
    seen: str | None = None
    for _ in range(TRIES):
        facts = (await session.net.ask(calls.inspect(keys, group))).value
        member = _failed_member(facts)
        _check_head(group, member, id)
        if ending and seen not in (None, member):
            break  # only what was seen is skipped
        seen = member
        mark = await _mark_behind(session, keys, group, member, facts.mark) if ending and member else ""
        answer = await _ask(session, calls.resume(keys, group, facts.failure, member, ending=ending, mark=mark))
        done = answer.value
        if done.status == "resumed":
            return done, member
        if ending and answer.is_repeat:
            raise _unknown(session, group, member, ending)
        if answer.is_repeat and done.status in ("changed", "due", "missing"):
            return done._replace(status="resumed"), member  # the first try did it
        if done.status != "changed":
            break
    _check_resumed(session, group, done, facts, what=" to skip" if ending else "")
    return done, member


async def _ask(session: Session, call: calls.Call[calls.Resumed]) -> Answer[calls.Resumed]:
    """Raises OutcomeUnknown where a message may have been taken away, and no try was answered."""
    _, group, _, member, ending, *_ = call.args
    try:
        return await session.net.ask(call)
    except ServerUnavailable as error:
        if ending and error.maybe_sent:
            raise _unknown(session, str(group), str(member), str(ending)) from error
        raise


def _unknown(session: Session, group: str, member: str, ending: str) -> OutcomeUnknown:
    """Of a skip whose answer was lost: what was taken away is kept, and this puts it back."""
    id, options = member[STAMP_DIGITS:], session.options
    name = "dead redrive" if ending == "dead" else "unskip"
    line = command(name, options.queue, *decode_group(group), namespace=options.namespace, options=id_option(id))
    kept = "it is a dead letter" if ending == "dead" else "it is kept until the next skip"
    return OutcomeUnknown(
        f"whether message {id!r} was skipped is unknown, because an answer was lost; look before you repeat it. If it "
        f"was, {kept}; to put it back: {line}",
        id,
    )


def _check_head(group: str, member: str, id: str | None) -> None:
    if id is not None and member and member[STAMP_DIGITS:] != id:
        raise NotParked(f"group {_name(group)} stands at {member[STAMP_DIGITS:]!r} by now, not at {id!r}; look again")


def _check_resumed(session: Session, group: str, done: calls.Resumed, facts: calls.Facts, *, what: str) -> None:
    """Raises GroupNotFound, GroupBusy, NotParked."""
    if done.status == "missing":
        raise GroupNotFound(f"group {_name(group)} has no messages in queue {session.options.queue!r}")
    if done.status in ("leased", "changed"):
        said = f"group {_name(group)} is held by {held_by(facts)}"
        raise GroupBusy(f"{said}; look again, and repeat if still needed")
    if done.status == "unfailed":
        raise NotParked(
            f"group {_name(group)} has no failed head{what}: it is not parked, nor waiting after a failure; explain "
            "says what it waits for"
        )


def _failed_member(facts: calls.Facts) -> str:
    """The member that a group's failure is about: the head if it names none; "" without a failure."""
    return (decode_failure(facts.failure)[1] or facts.head) if facts.failure else ""


async def _mark_behind(session: Session, keys: LaneKeys, group: str, member: str, mark: str) -> str:
    """The watermark of a sequence after this member; "" for a queue that is none."""
    if not (await session.policy(register=False)).sequence:
        return ""
    score = (await session.net.read(keys.order(group), [("ZSCORE", keys.order(group), member)]))[0]
    with Reading(session.net.name):
        return advance(mark or "#0", [score.decode()]) if score else ""


# -- messages and timers ---------------------------------------------------------------------------------------


async def cancel(session: Session, group: Group, id: Id) -> None:
    """Remove a pending message; it will not be handled.

    Raises MessageNotFound, and MessageBusy when a consumer may have it in hand.
    """
    await _revise(session, encode_group(group), encode_id(id), "", "")


async def reschedule(
    session: Session,
    group: Group,
    id: Id,
    *,
    delay: float | timedelta | None = None,
    at: Score | None = None,
    score: Score | None = None,
) -> None:
    """Give a pending message another time, `delay` seconds from now or `at`, and fresh attempts.

    It takes its place anew, as if it arrived now; its score is the new time if it was its old one, else it stays,
    unless given. In a sequence the score can't change. Raises InvalidTime, MessageNotFound, and MessageBusy when a
    consumer may have it in hand.
    """
    due = encode_due(delay, at)
    if not due:
        raise InvalidTime("no time given; pass delay= in seconds, or at=")
    key, message_id = encode_group(group), encode_id(id)
    if score is not None and (await session.policy(register=False)).sequence:
        raise InvalidScore("score is given, but in a queue with sequence=True a number stays what it is; leave it out")
    await _revise(session, key, message_id, "due" if score is None else encode_score(score), due)


async def _revise(session: Session, group: str, message_id: str, score: str, due: str) -> None:
    name, queue = f"message {message_id!r} of group {_name(group)}", session.options.queue
    keys = await session.keys_of(group, register=False)
    await session.allow("operate")
    facts = (await session.net.ask(calls.inspect(keys, group, message_id))).value
    if not facts.member:
        raise MessageNotFound(f"{name} is not pending in queue {queue!r}")
    answer = await session.net.ask(calls.revise(keys, group, message_id, score, due))
    if answer.value == "done":
        return
    if answer.value == "missing" and answer.is_repeat and not score:
        return  # the first try, whose answer was lost, had removed it
    _doubt(answer, bool(score), f"message {message_id!r} was given its new time")
    if answer.value == "missing":
        raise MessageNotFound(f"{name} is not pending in queue {queue!r}")
    raise MessageBusy(
        f"{name} may be in a consumer's hands just now: the group is held by {held_by(facts)}; look again"
    )


# -- pauses ----------------------------------------------------------------------------------------------------


async def pause(session: Session, group: Group | None = None) -> bool:
    """Hold back a group, or without one the whole queue, from the next claim on; what runs is finished.

    Appending goes on. Survives restarts of everything. False when it was paused already. A group may be paused
    before it has messages.
    """
    return await _pause(session, group, True)


async def unpause(session: Session, group: Group | None = None) -> bool:
    """Let a paused group, or the whole queue, go on. False when it was not paused."""
    return await _pause(session, group, False)


async def _pause(session: Session, group: Group | None, is_paused: bool) -> bool:
    key = "" if group is None else encode_group(group)
    lanes = await session.lanes(register=is_paused)  # to let go on what was never used changes nothing
    lanes = lanes if group is None else [await session.keys_of(key, register=False)]
    await session.allow("operate")
    return any((await session.net.ask_all([calls.pause(keys, key, is_paused) for keys in lanes])).value)


# -- outages ---------------------------------------------------------------------------------------------------


async def probe_outage(session: Session) -> bool:
    """While an outage holds the queue back, let one message be tried now. False where none does."""
    lanes = await session.lanes(register=False)
    await session.allow("operate")
    ended = (await session.net.ask_all([calls.outage(keys, "probe") for keys in lanes])).value
    return any(one.status == "probing" for one in ended)


def _doubt(answer: Answer[Any], is_refused: bool, what: str) -> None:
    """Raise OutcomeUnknown where the refusal of a repeated call may be the answer to the success of its first try."""
    if is_refused and answer.is_repeat:
        raise OutcomeUnknown(f"whether {what} is unknown, because an answer was lost; look before you repeat it")


def _name(group: str) -> list[str]:
    """How a text calls an encoded group."""
    return list(decode_group(group))
