"""What an operator says of steps whose end nobody knows: checked, and written into the ledger."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ... import calls
from ...drain.steps.answers import Answers
from ...drain.steps.rules import questions
from ...errors import AnswerNeeded, AnswerRefused, GroupBusy
from ...store.failure import ASKING, decode_failure
from ...store.group import decode_group
from ...store.keys import ShardKeys
from ...store.ledger import Ledger, LedgerError, Written, check_room, decode_ledger, encode_ledger
from ...store.record import DeadLetterContent, DeadLetterName, id_of, stamp_of, written_of
from ..session import Session
from ..state import is_leased, lease_fields


async def answered_head(
    session: Session, keys: ShardKeys, group: str, facts: calls.GroupFacts, member: str, answers: Answers
) -> Written | None:
    """The ledger of a failed head with these answers, if any. Raises GroupBusy, AnswerRefused, AnswerNeeded."""
    about: dict[str, Any] = {"group": decode_group(group), **session.names}
    if not answers:
        failure = decode_failure(facts.failure)[0]
        if failure.type in ASKING:
            raise AnswerNeeded(**about, id=failure.id, question=failure.message)
        return None
    id = id_of(member)
    (record,) = await session.net.read([("HGET", keys.body(group), id)]) if member else (None,)
    if record is None or stamp_of(record) != stamp_of(member):
        if is_leased(facts.visible_us, facts.lease, facts.now_us):
            raise GroupBusy(**about, **lease_fields(facts))
        raise AnswerRefused("nothing_asked", **about)
    return _answered(written_of(record), answers, facts.now_us, {**about, "id": id, "is_dead": False})


def answered_letter(session: Session, letter: str, kept: bytes, answers: Answers, now_us: int) -> Written:
    """The ledger of a dead letter with these answers. Raises AnswerRefused, AnswerNeeded."""
    name = DeadLetterName.parse(letter)
    about = {"group": decode_group(name.group), "id": name.id, "is_dead": True, **session.names}
    return _answered(written_of(DeadLetterContent.parse(kept).record), answers, now_us, about)


def _answered(written: Written | None, answers: Answers, now_us: int, about: Mapping[str, Any]) -> Written:
    try:
        ledger: Ledger | None = None if written is None else decode_ledger(written.ledger)
    except LedgerError as error:
        raise AnswerRefused("ledger_unreadable", error=str(error)) from error
    said = answers.applied(ledger, at=now_us / 1e6)
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
