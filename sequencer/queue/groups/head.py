"""resume and skip of one group: what lets it go on from its head. Operations over a net.

Each change is one script, so that nothing is ever half done. An operation looks first, and its change is refused by the
script if something else is there by then; it looks again, up to ATTEMPTS times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from ... import calls
from ...calls.net_protocol import Answer
from ...drain.steps.answers import Answers
from ...errors import (
    EffectsSaved,
    GroupBusy,
    GroupNotFound,
    NotParked,
    OutcomeUnknown,
    ServerUnavailable,
)
from ...store.envelope import encode_id
from ...store.failure import decode_failure, digest_of
from ...store.group import decode_group, encode_group
from ...store.item import Group, Id
from ...store.keys import ShardKeys
from ...store.record import id_of, readable_message
from ...store.replies import Reading
from ...store.watermark import Sequenced, advance
from ...texts.commands import command, id_option
from ...texts.words import named
from ...values.history import Skipped
from ...values.views import Gap
from ..explain import explanation, missing_number
from ..lease_owner import held_by, unanswered
from ..session import Session
from ..state import expired_head, is_deferred
from ..steps.answers import answered_head, given_answers
from ..steps.record_steps import record_steps

ATTEMPTS = 5
"""How often to look again when something changed between look and act."""


async def resume(
    session: Session,
    group: Group,
    *,
    id: Id | None = None,
    done: Mapping[str, Any] | None = None,
    again: Sequence[str] = (),
    attempts: Mapping[str, int] | None = None,
    by: str | None = None,
) -> bool:
    """Let a parked or waiting group go on now, with fresh attempts. False when it was due already.

    Where a `once` step of its head has an end that nobody knows, a person says it: `done` names steps that took effect,
    each with its result, and `again` those that did not, which run again under another key. `done` may also name a step
    that shall not run at all. `attempts`: for each step the attempt you answer for, its `attempts` in `steps`: once
    it has run again, the answer is refused. `by`: who says it. `id`: only if this message is the failed head. Raises
    GroupNotFound; GroupBusy when a consumer holds it; NotParked when its head is another than `id`, when it waits for
    its time or for a missing number, or is paused; AnswerNeeded, AnswerRefused.
    """
    key, wanted = encode_group(group), None if id is None else encode_id(id)
    answers = given_answers(done, again, by, attempts)
    keys = await session.keys_of(key, register=False)
    await session.allow("operate")
    facts = (await session.net.ask(calls.inspect(keys, key))).value
    policy = await session.fresh_policy()
    with Reading(session.net.name):
        reason = explanation(key, facts, policy, session.options).reason
        missing = None if facts.failure else missing_number(facts, policy)
    if not answers and reason == "due" and is_deferred(facts.visible_us, facts.now_us):  # by a rule that holds no more
        await session.net.ask(calls.wake(keys, key))
        return True
    if missing:
        raise NotParked(f"group {name_of(key)} waits for a missing number (see explain); append it, or skip it")
    resumed, _ = await _resume(session, keys, key, "", wanted, answers=answers, by=by)
    return resumed.status == "resumed"


async def resume_asked(
    session: Session, keys: ShardKeys, group: str, digest: str, answers: Answers, by: str | None
) -> Literal["resumed", "changed"]:
    """Answer for the head of a group, if its failure is still the one with this digest. Raises AnswerRefused."""
    facts = (await session.net.ask(calls.inspect(keys, group))).value
    if digest_of(facts.failure) != digest:
        return "changed"
    member = _failed_member(facts)
    written = await answered_head(session, keys, group, facts, member, answers, by)
    answer = await session.net.ask(calls.resume(keys, group, facts.failure, member, written=written))
    return "resumed" if answer.value.status == "resumed" or answer.is_repeat else "changed"


async def skip(
    session: Session, group: Group, *, id: Id | None = None, dead_letter: bool = False, yes: bool = False
) -> Skipped | Gap:
    """Remove the failed head of a group and let the group go on; returns the removed message, with its steps.

    So is a head removed that a consumer had in progress when its lease ran out: a handler may hang at it, whichever
    consumer takes it over. That consumer is refused when it wakes. `pause` the group before, so that none does. It is
    kept until the next skip, and `unskip` puts it back; with `dead_letter` it becomes a dead letter. `id`: only
    if it is this message. In a sequence that waits for a number, step over what is missing instead;
    returns the Gap. A message with such a number is late when it comes after all. `yes`: also where steps of it had
    effects, which `unskip` brings back too. Raises GroupNotFound, NotParked when its head did not fail or is another
    than `id`, GroupBusy when a consumer holds it, EffectsSaved, OutcomeUnknown.
    """
    key, wanted = encode_group(group), None if id is None else encode_id(id)
    keys = await session.keys_of(key, register=False)
    is_sequence = (await session.policy(register=False)).sequence
    await session.allow("operate")
    if is_sequence and (gap := await _skip_gap(session, keys, key, wanted)):
        return gap
    done, member = await _resume(session, keys, key, "dead" if dead_letter else "discard" if yes else "drop", wanted)
    queue = session.options.queue
    message = readable_message(member, done.score or "nan", done.record, decode_group(key), 0, queue)
    message = message._replace(attempt=max(message.attempt, done.attempts + 1))
    return Skipped.of(message, record_steps(queue, key, message.id, done.record, is_dead=dead_letter))


async def _skip_gap(session: Session, keys: ShardKeys, group: str, id: str | None) -> Gap | None:
    """The gap that was skipped; None when the group waits for no number. Raises NotParked where an id is given."""
    seen: tuple[int, int] | None = None
    policy = await session.policy(register=False)
    for _ in range(ATTEMPTS):
        facts = (await session.net.ask(calls.inspect(keys, group))).value
        with Reading(session.net.name):
            missing, passed = missing_number(facts, policy), Sequenced.parse(facts.mark)
        if seen is None and (missing is None or facts.failure):
            return None
        if id is not None:
            raise NotParked(f"group {name_of(group)} waits for a missing number, and not at {id!r}; leave out the id")
        seen = seen or missing
        if missing != seen or seen is None:
            break  # only what was seen is skipped
        mark = passed.gap_skipped(seen).text()
        done = await session.net.ask(calls.skip_gap(keys, group, facts.head, facts.mark, mark))
        if done.value == "skipped":
            return Gap(decode_group(group), *seen)
        invalidate(done, done.value == "changed", f"numbers {seen[0]} to {seen[1]} were stepped over")
        if done.value == "leased":
            break
    raise GroupBusy(f"group {name_of(group)} was changed or taken meanwhile; look again")


async def _resume(
    session: Session,
    keys: ShardKeys,
    group: str,
    ending: calls.Ending,
    id: str | None = None,
    *,
    answers: Answers | None = None,
    by: str | None = None,
) -> tuple[calls.Resumed, str]:
    """What the script did, and the member that it was about. With an ending, that is taken away."""
    seen: str | None = None
    for _ in range(ATTEMPTS):
        facts = (await session.net.ask(calls.inspect(keys, group))).value
        member, told = _failed_member(facts), b""
        if ending and (head := expired_head(facts)) not in ("", member):
            member, told = head, unanswered(facts)
        _check_head(group, member, id)
        if ending and seen not in (None, member):
            break  # only what was seen is skipped
        seen = member
        mark = await _mark_behind(session, keys, group, member, facts.mark) if ending and member else ""
        written = None
        if answers is not None:
            written = await answered_head(session, keys, group, facts, member, answers, by)
        call = calls.resume(keys, group, facts.failure, member, ending=ending, mark=mark, written=written, told=told)
        try:
            answer = await session.net.ask(call)
        except ServerUnavailable as error:
            if ending and error.maybe_sent:
                raise _unknown(session, group, member, ending) from error
            raise
        done = answer.value
        if done.status == "resumed":
            attempts = decode_failure(told or facts.failure)[0].attempt if told or facts.failure else 0
            return done._replace(attempts=attempts), member
        if ending and answer.is_repeat:
            raise _unknown(session, group, member, ending)
        if answer.is_repeat and done.status in ("changed", "due", "missing"):
            return done._replace(status="resumed"), member  # the first attempt did it
        if done.status == "effects":
            raise _effects(group, member)
        if done.status != "changed" or answers:
            break  # an answer is for what was seen
    _check_resumed(session, group, done, facts, what=" to skip" if ending else "")
    return done, member


def _effects(group: str, member: str) -> EffectsSaved:
    id, parts = id_of(member), decode_group(group)
    return EffectsSaved(
        id,
        parts,
        f"message {id!r} of group {named(parts)} is not skipped: effects of its steps are noted. Make it a dead "
        "letter, which keeps them (dead_letter=True, --dead-letter), or say yes=True (--yes): unskip can undo that",
    )


def _unknown(session: Session, group: str, member: str, ending: str) -> OutcomeUnknown:
    """Of a skip whose answer was lost: what was taken away is kept, and this puts it back."""
    id, options = id_of(member), session.options
    name = "dead redrive" if ending == "dead" else "unskip"
    line = command(name, options.queue, *decode_group(group), namespace=options.namespace, options=id_option(id))
    kept = "it is a dead letter" if ending == "dead" else "it is kept until the next skip"
    return OutcomeUnknown(
        f"whether message {id!r} was skipped is unknown, because an answer was lost; look before you repeat it. If it "
        f"was, {kept}; to put it back: {line}",
        id,
    )


def _check_head(group: str, member: str, id: str | None) -> None:
    if id is not None and member and id_of(member) != id:
        raise NotParked(f"group {name_of(group)} stands at {id_of(member)!r} by now, not at {id!r}; look again")


def _check_resumed(session: Session, group: str, done: calls.Resumed, facts: calls.GroupFacts, *, what: str) -> None:
    """Raises GroupNotFound, GroupBusy, NotParked."""
    if done.status == "missing":
        raise GroupNotFound(f"group {name_of(group)} has no messages in queue {session.options.queue!r}")
    if done.status in ("leased", "changed"):
        raise GroupBusy(f"group {name_of(group)} is held by {held_by(group, facts, session.options)}")
    if done.status == "unfailed":
        said = f"group {name_of(group)} has no failed head{what}: it is not parked, nor waiting after a failure; "
        names, space = (session.options.queue, *decode_group(group)), session.options.namespace
        said += f"see: {command('explain', *names, namespace=space)}"
        if id := id_of(facts.head):
            cancel = command("cancel", *names, namespace=space, options=id_option(id))
            said += f"; to take {id!r} away, which waits: {cancel}"
        raise NotParked(said)


def _failed_member(facts: calls.GroupFacts) -> str:
    """The member that a group's failure is about: the head if it names none; "" without a failure."""
    return (decode_failure(facts.failure)[1] or facts.head) if facts.failure else ""


async def _mark_behind(session: Session, keys: ShardKeys, group: str, member: str, mark: str) -> str:
    """The watermark of a sequence after this member; "" for a queue that is none."""
    if not (await session.policy(register=False)).sequence:
        return ""
    score = (await session.net.read(keys.order(group), [("ZSCORE", keys.order(group), member)]))[0]
    with Reading(session.net.name):
        return advance(mark or "#0", [score.decode()]) if score else ""


def invalidate(answer: Answer[Any], is_refused: bool, what: str) -> None:
    """Raise OutcomeUnknown where the refusal of a repeated call may be the answer to the success of its first
    attempt.
    """
    if is_refused and answer.is_repeat:
        raise OutcomeUnknown(f"whether {what} is unknown, because an answer was lost; look before you repeat it")


def name_of(group: str) -> str:
    """How a text calls an encoded group."""
    return named(decode_group(group))
