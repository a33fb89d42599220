"""resume, skip and unskip of one group: what lets it go on from its head, and what puts that back. Operations over a
net.

Each change is one script, so that nothing is ever half done. An operation reads first, and its change is refused by the
script if something else is there by then: GroupBusy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from ... import calls
from ...drain.steps.answers import Answers
from ...errors import (
    EffectsSaved,
    GroupBusy,
    GroupNotFound,
    IdConflict,
    MessageNotFound,
    NotParked,
    OutcomeUnknown,
    ServerUnavailable,
)
from ...store.envelope import encode_id
from ...store.failure import decode_failure, digest_of
from ...store.group import decode_group, encode_group
from ...store.item import Group, Id
from ...store.keys import ShardKeys
from ...store.record import DeadLetterName, decode_dead_letter, id_of, readable_message
from ...store.replies import Reading, pairs, text
from ...store.watermark import Sequenced, advance
from ...values.history import Skipped
from ...values.message import Message
from ...values.views import Gap
from ..explain import explanation, missing_number
from ..pages import read
from ..session import Session
from ..state import expired_head, is_deferred, lease_fields, unanswered
from ..steps.answers import answered_head
from ..steps.record_steps import record_steps


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
    """Let a parked or waiting group go on now, with fresh attempts. False if it was already due.

    If its head has a `once` step of unknown outcome, an operator has to answer: `done` names steps that took effect,
    each with its result, and `again` those that did not, which run again with a new key. `done` may also name a step
    that must not run at all. `attempts`: for each step, the attempt you answer for (its `attempts` in `steps`); once
    it has run again, the answer is refused. `by`: who answers. `id`: only if this message is the failed head. Raises
    GroupNotFound; GroupBusy if a consumer holds it; NotParked if its head is not `id`, or it waits for its time or a
    missing number, or is paused; AnswerNeeded, AnswerRefused.
    """
    key, wanted = encode_group(group), None if id is None else encode_id(id)
    answers = Answers.of(done, again, attempts, by)
    keys = await session.keys_of(key, "operate")
    facts = await session.ask(calls.inspect(keys, key))
    policy = await session.fresh_policy()
    with Reading(session.net.name):
        reason = explanation(key, facts, policy, session.options).reason
        missing = None if facts.failure else missing_number(facts, policy)
    if not answers and reason == "due" and is_deferred(facts.visible_us, facts.now_us):  # by a rule that holds no more
        await session.net.ask(calls.wake(keys, key))
        return True
    if missing:
        raise NotParked("number_missing", group=decode_group(key))
    resumed, _ = await _resume(session, keys, key, facts, "", wanted, answers=answers)
    return resumed.status == "resumed"


async def resume_asked(
    session: Session, keys: ShardKeys, group: str, digest: str, answers: Answers
) -> Literal["resumed", "changed"]:
    """Answer for the head of a group, if its failure is still the one with this digest. Raises AnswerRefused."""
    facts = await session.ask(calls.inspect(keys, group))
    if digest_of(facts.failure) != digest:
        return "changed"
    member = _failed_member(facts)
    written = await answered_head(session, keys, group, facts, member, answers)
    answer = await session.net.ask(calls.resume(keys, group, facts.failure, member, written=written))
    return "resumed" if answer.value.status == "resumed" or answer.is_repeat else "changed"


async def skip(
    session: Session, group: Group, *, id: Id | None = None, dead_letter: bool = False, yes: bool = False
) -> Skipped | Gap:
    """Remove the failed head of a group and let the group go on; returns the removed message, with its steps.

    It also removes a head whose lease expired while a consumer had it in progress, since every handler may hang on it:
    `pause` the group first, so that no other consumer takes it over. The old consumer is refused when it wakes up.
    The message is kept until the next skip, and `unskip` puts it back; with `dead_letter` it becomes a dead letter.
    `id`: only if it is this message. In a sequence that waits for missing numbers, skips those instead and returns the
    Gap; a message with such a number is late if it arrives after all. `yes`: even if some of its steps took effect;
    `unskip` brings their outcome back too. Raises GroupNotFound, NotParked if its head did not fail or is not `id`,
    GroupBusy if a consumer holds it, EffectsSaved, OutcomeUnknown.
    """
    key, wanted = encode_group(group), None if id is None else encode_id(id)
    keys = await session.keys_of(key, "operate")
    facts, policy = await session.ask(calls.inspect(keys, key)), await session.policy()
    with Reading(session.net.name):
        missing = None if facts.failure else missing_number(facts, policy)
    if missing:
        return await _skip_gap(session, keys, key, facts, missing, wanted)
    ending: calls.Ending = "dead" if dead_letter else "discard" if yes else "drop"
    done, member = await _resume(session, keys, key, facts, ending, wanted)
    queue = session.options.queue
    message = readable_message(member, done.score or "nan", done.record, decode_group(key), 0, queue)
    message = message._replace(attempt=max(message.attempt, done.attempts + 1))
    return Skipped.of(message, record_steps(queue, key, message.id, done.record, is_dead=dead_letter))


async def unskip(session: Session, group: Group, *, id: Id | None = None) -> Message:
    """Put the last skipped message back into its place in this group, with fresh attempts; returns it.

    `id`: only if it is this one. Raises MessageNotFound if another was skipped since in the same shard, IdConflict if a
    message with its id is pending again.
    """
    key, wanted = encode_group(group), None if id is None else encode_id(id)
    keys = await session.keys_of(key, "operate")
    kept: dict[bytes, bytes] = await read(session.net, lambda words: dict(pairs(words)), ("HGETALL", keys.skipped))
    for letter, record in ((text(word), record) for word, record in kept.items()):
        name = DeadLetterName.parse(letter)
        if name.group != key or wanted not in (None, name.id):
            continue
        answer = await session.net.ask(calls.redrive(keys, [letter], skipped=True))
        outcome = answer.value[0]
        if outcome == "redriven" or (outcome == "missing" and answer.is_repeat):
            return decode_dead_letter(letter, record, 0.0, session.options.queue).message
        if outcome == "pending":
            raise IdConflict("pending_again", id=name.id, group=decode_group(key))
    raise MessageNotFound("nothing_skipped", id=wanted, group=decode_group(key), queue=session.options.queue)


async def _skip_gap(
    session: Session, keys: ShardKeys, group: str, facts: calls.GroupFacts, missing: tuple[int, int], id: str | None
) -> Gap:
    if id is not None:
        raise NotParked("number_missing", group=decode_group(group), id=id)
    with Reading(session.net.name):
        mark = Sequenced.parse(facts.mark).gap_skipped(missing).text()
    done = await session.net.ask(calls.skip_gap(keys, group, facts.head, facts.mark, mark))
    if done.value == "skipped":
        return Gap(decode_group(group), *missing)
    if done.is_repeat and done.value == "changed":  # perhaps because the first attempt did it
        raise OutcomeUnknown(first=missing[0], last=missing[1])
    raise GroupBusy("group_changed", group=decode_group(group))


async def _resume(
    session: Session,
    keys: ShardKeys,
    group: str,
    facts: calls.GroupFacts,
    ending: calls.Ending,
    id: str | None = None,
    *,
    answers: Answers | None = None,
) -> tuple[calls.Resumed, str]:
    """What the script did, and the member that it was about. With an ending, that is taken away."""
    about: dict[str, Any] = {"group": decode_group(group), **session.names}
    member, told = _failed_member(facts), b""
    if ending and (head := expired_head(facts)) not in ("", member):
        member, told = head, unanswered(facts)
    if id is not None and member and id_of(member) != id:
        raise NotParked("other_head", **about, head=id_of(member), id=id)
    mark = await _mark_behind(session, keys, group, member, facts.mark) if ending and member else ""
    written = None if answers is None else await answered_head(session, keys, group, facts, member, answers)
    call = calls.resume(keys, group, facts.failure, member, ending=ending, mark=mark, written=written, told=told)
    # Of a skip whose answer was lost: what was taken away is kept.
    unknown = OutcomeUnknown("skip_unknown", **about, id=id_of(member), is_dead=ending == "dead")
    try:
        answer = await session.net.ask(call)
    except ServerUnavailable as error:
        if ending and error.maybe_sent:
            raise unknown from error
        raise
    status = answer.value.status
    if status == "resumed":
        return answer.value._replace(attempts=decode_failure(told or facts.failure)[0].attempt), member
    if answer.is_repeat and ending:
        raise unknown
    if answer.is_repeat and status in ("changed", "due", "missing"):
        return answer.value._replace(status="resumed"), member  # the first attempt did it
    if status == "effects":
        raise EffectsSaved("skip_refused", **about, id=id_of(member))
    if status == "missing":
        raise GroupNotFound(**about)
    if status == "changed":
        raise GroupBusy("group_changed", **about)
    if status == "leased":
        raise GroupBusy(**about, **lease_fields(facts))
    if status == "unfailed":
        raise NotParked("no_failed_head", **about, id=id_of(facts.head))
    return answer.value, member


def _failed_member(facts: calls.GroupFacts) -> str:
    """The member that a group's failure is about: the head if it names none; "" without a failure."""
    return (decode_failure(facts.failure)[1] or facts.head) if facts.failure else ""


async def _mark_behind(session: Session, keys: ShardKeys, group: str, member: str, mark: str) -> str:
    if not (await session.policy()).sequence:
        return ""
    return await read(
        session.net,
        lambda score: advance(mark or "#0", [score.decode()]) if score else "",
        ("ZSCORE", keys.order(group), member),
    )
