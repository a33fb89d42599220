"""The half of Sequencer that changes what is in a queue by hand: stuck groups, timers, pauses, dead letters."""

from __future__ import annotations

from datetime import timedelta

from .. import calls
from ..errors import (
    GroupBusy,
    GroupNotFound,
    InvalidScore,
    InvalidTime,
    MessageBusy,
    MessageNotFound,
    NotParked,
    OutcomeUnknown,
)
from ..net.link import Link
from ..settings.options import QueueOptions
from ..store.envelope import encode_due, encode_id, encode_score
from ..store.failure import decode_failure
from ..store.group import decode_group, encode_group
from ..store.item import Group, Score
from ..store.record import STAMP_DIGITS, readable_message
from ..store.watermark import Sequenced, advance
from ..values.message import Message
from ..values.views import Gap
from .explain import explanation, missing_number
from .session import Session

TRIES = 5
"""How often to look again when something changed between look and act."""


class Mending:
    """Methods of Sequencer. Each change is one script, so that nothing is ever half done."""

    options: QueueOptions
    _session: Session

    # -- stuck groups -----------------------------------------------------------------------------------------

    def resume(self, group: Group) -> bool:
        """Let a parked or waiting group go on now, with fresh attempts. False when it was due already.

        Raises GroupNotFound; GroupBusy when a consumer holds it; NotParked when it waits for its time or for a missing
        number, or is paused.
        """
        key = encode_group(group)
        if self._was_put_off(key):
            return True
        if self._missing(key):
            raise NotParked(
                f"group {list(decode_group(key))} waits for a missing number (see explain); append it, or skip it"
            )
        return self._resume(key, skip=False)[0].status == "resumed"

    def skip(self, group: Group) -> Message | Gap:
        """Remove the failed head of a group and let the group go on; returns the removed message, the only copy of it.

        In a sequence that waits for a number, step over what is missing instead; returns the Gap. A message with such
        a number is late when it comes after all. Raises GroupNotFound, NotParked when its head did not fail,
        GroupBusy when a consumer holds it.
        """
        key = encode_group(group)
        if gap := self._skip_gap(key):
            return gap
        done, member = self._resume(key, skip=True)
        return readable_message(member, done.score or "nan", done.record, decode_group(key), 0, self.options.queue)

    def _was_put_off(self, group: str) -> bool:
        """Whether the group slept by a rule that holds no more; it is woken."""
        keys = self._session.keys_of_now(group, register=False)
        with self._session.link("operate") as link:
            facts = link.run_one(calls.inspect(keys, group))
            found = explanation(group, facts, self._session.fresh_policy_on(link))
            sleeps = found.reason == "due" and facts.visible_us is not None and facts.visible_us > facts.now_us
            if sleeps:
                link.run_one(calls.wake(keys, group))
        return sleeps

    def _missing(self, group: str) -> bool:
        if not self._session.policy_now(register=False).sequence:
            return False
        with self._session.link("operate") as link:
            facts = link.run_one(calls.inspect(self._session.keys_of_now(group, register=False), group))
        return not facts.failure and missing_number(facts, self._session.policy_now(register=False)) is not None

    def _skip_gap(self, group: str) -> Gap | None:
        keys, policy = self._session.keys_of_now(group, register=False), self._session.policy_now(register=False)
        if not policy.sequence:
            return None
        seen: tuple[int, int] | None = None
        with self._session.link("operate") as link:
            for _ in range(TRIES):
                facts = link.run_one(calls.inspect(keys, group))
                missing = missing_number(facts, policy)
                if seen is None and (missing is None or facts.failure):
                    return None
                seen = seen or missing
                if missing != seen or seen is None:
                    break  # only what was seen is stepped over
                mark = Sequenced.parse(facts.mark).gap_skipped(seen).text()
                status = link.run_one(calls.skip_gap(keys, group, facts.head, facts.mark, mark))
                if status == "skipped":
                    return Gap(decode_group(group), *seen)
                _doubt(link, status == "changed", f"numbers {seen[0]} to {seen[1]} were stepped over")
                if status == "leased":
                    break
        raise GroupBusy(f"group {list(decode_group(group))} was changed or taken meanwhile; look again")

    def _resume(self, group: str, *, skip: bool) -> tuple[calls.Resumed, str]:
        keys, name = self._session.keys_of_now(group, register=False), list(decode_group(group))
        seen: str | None = None
        with self._session.link("operate") as link:
            for _ in range(TRIES):
                facts = link.run_one(calls.inspect(keys, group))
                member, mark = decode_failure(facts.failure)[1] if facts.failure else "", ""
                if facts.failure and not member:  # a failure without its message: it is about the head
                    member = facts.head
                if skip and seen not in (None, member):
                    break  # only what was seen is skipped
                seen = member
                if skip and member and self._session.policy_now(register=False).sequence:
                    score = link.command("ZSCORE", keys.order(group), member)
                    mark = advance(facts.mark or "#0", [score.decode()]) if score else ""
                done = link.run_one(calls.resume(keys, group, facts.failure, member, skip=skip, mark=mark))
                if done.status == "resumed":
                    break
                _doubt(link, skip, f"message {member[STAMP_DIGITS:]!r} was skipped")
                if link.is_repeat and done.status in ("changed", "due", "missing"):
                    return done._replace(status="resumed"), member  # the first try did it
                if done.status != "changed":
                    break
        if done.status == "missing":
            raise GroupNotFound(f"group {name} has no messages in queue {self.options.queue!r}")
        if done.status in ("leased", "changed"):
            raise GroupBusy(f"group {name} is held by a consumer just now; look again, and repeat if still needed")
        if done.status == "unfailed":
            raise NotParked(
                f"group {name} has no failed head{' to skip' if skip else ''}: it is not parked, nor waiting after a "
                "failure; explain says what it waits for"
            )
        return done, member

    # -- messages and timers ----------------------------------------------------------------------------------

    def cancel(self, group: Group, id: str | int) -> None:
        """Remove a pending message; it will not be handled.

        Raises MessageNotFound, and MessageBusy when a consumer may have it in hand.
        """
        self._revise(encode_group(group), encode_id(id), "", "")

    def reschedule(
        self,
        group: Group,
        id: str | int,
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
        if score is not None and self._session.policy_now(register=False).sequence:
            raise InvalidScore(
                "score is given, but in a queue with sequence=True a number stays what it is; leave it out"
            )
        self._revise(key, message_id, "due" if score is None else encode_score(score), due)

    def _revise(self, group: str, message_id: str, score: str, due: str) -> None:
        keys = self._session.keys_of_now(group, register=False)
        with self._session.link("operate") as link:
            was_there = bool(link.run_one(calls.inspect(keys, group, message_id)).member)
            status = link.run_one(calls.revise(keys, group, message_id, score, due)) if was_there else "missing"
            if status == "missing" and was_there and link.is_repeat and not score:
                return  # the first try, whose answer was lost, had removed it
            _doubt(
                link, was_there and status != "done" and bool(score), f"message {message_id!r} was given its new time"
            )
        name = f"message {message_id!r} of group {list(decode_group(group))}"
        if status == "missing":
            raise MessageNotFound(f"{name} is not pending in queue {self.options.queue!r}")
        if status == "leased":
            raise MessageBusy(f"{name} may be in a consumer's hands just now; look at it again")


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


def _doubt(link: Link, is_refused: bool, what: str) -> None:
    """Raise OutcomeUnknown where the refusal of a repeated call may be the answer to the success of its first try."""
    if is_refused and link.is_repeat:
        raise OutcomeUnknown(f"whether {what} is unknown, because an answer was lost; look before you repeat it")
