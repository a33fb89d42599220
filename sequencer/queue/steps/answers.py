"""What a person says of steps whose end nobody knows: checked, and written into the ledger."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ... import calls
from ...drain.steps.answers import Answers
from ...drain.steps.rules import questions
from ...errors import AnswerNeeded, AnswerRefused, ConfigurationError, GroupBusy, shown
from ...store.failure import ASKING, decode_failure
from ...store.group import decode_group
from ...store.keys import ShardKeys
from ...store.ledger import Ledger, LedgerError, Written, check_room, decode_ledger, encode_ledger
from ...store.record import DeadLetterContent, DeadLetterName, id_of, stamp_of, written_of
from ..session import Session
from ..state import is_leased, lease_fields

SOMEBODY = "somebody"
"""Who says it, where nobody is named."""
MAX_NAME = 100


def given_answers(done: Any, again: Any, by: Any, attempts: Any = None) -> Answers:
    """As a caller gives them. Raises ConfigurationError, InvalidBody."""
    if by is not None and (not isinstance(by, str) or not by.isprintable() or not 0 < len(by) <= MAX_NAME):
        raise ConfigurationError("by_invalid", value=shown(by), most=MAX_NAME)
    return Answers.of({} if done is None else done, again, attempts)


async def answered_head(
    session: Session,
    keys: ShardKeys,
    group: str,
    facts: calls.GroupFacts,
    member: str,
    answers: Answers,
    by: str | None,
) -> Written | None:
    """The ledger of a failed head with these answers; None without any.

    Raises GroupBusy, AnswerRefused, AnswerNeeded.
    """
    about: dict[str, Any] = {"group": decode_group(group), **session.names}
    if not answers:
        failure = decode_failure(facts.failure)[0] if facts.failure else None
        if failure and failure.type in ASKING:
            raise AnswerNeeded(**about, id=failure.id, question=failure.message)
        return None
    id = id_of(member)
    (record,) = await session.net.read([("HGET", keys.body(group), id)]) if member else (None,)
    if record is None or stamp_of(record) != stamp_of(member):
        if is_leased(facts.visible_us, facts.lease, facts.now_us):
            raise GroupBusy(**about, **lease_fields(facts))
        raise AnswerRefused("nothing_asked", **about)
    return _answered(written_of(record), answers, by, facts.now_us, {**about, "id": id, "is_dead": False})


def answered_letter(
    session: Session, letter: str, kept: bytes, answers: Answers, by: str | None, now_us: int
) -> Written | None:
    """The ledger of a dead letter with these answers; None without any. Raises AnswerRefused, AnswerNeeded."""
    if not answers:
        return None
    name = DeadLetterName.parse(letter)
    about = {"group": decode_group(name.group), "id": name.id, "is_dead": True, **session.names}
    return _answered(written_of(DeadLetterContent.parse(kept).record), answers, by, now_us, about)


def _answered(
    written: Written | None, answers: Answers, by: str | None, now_us: int, about: Mapping[str, Any]
) -> Written:
    try:
        ledger: Ledger | None = None if written is None else decode_ledger(written.ledger)
    except LedgerError as error:
        raise AnswerRefused("ledger_unreadable", error=str(error)) from error
    said = answers.applied(ledger, who=by or SOMEBODY, at=now_us / 1e6)
    assert written is not None
    if left := questions(said):
        raise AnswerNeeded("more_answers_needed", **about, steps=[entry.name for entry in left])
    try:
        kept = encode_ledger(said)
        if any(result is not None for result in answers.done.values()):
            check_room(kept)
    except LedgerError as error:
        raise AnswerRefused("answer_too_large", error=str(error)) from error
    return written.next(kept, has_effects=said.has_effects)
