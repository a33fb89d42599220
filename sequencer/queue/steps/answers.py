"""What a person says of steps whose end nobody knows: checked, and written into the ledger."""

from __future__ import annotations

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
from ...texts.commands import command, id_option
from ...texts.words import named
from ..lease_owner import held_by
from ..session import Session
from ..state import is_leased

SOMEBODY = "somebody"
"""Who says it, where nobody is named."""
MAX_NAME = 100


def given_answers(done: Any, again: Any, by: Any, attempts: Any = None) -> Answers:
    """As a caller gives them. Raises ConfigurationError, InvalidBody."""
    if by is not None and (not isinstance(by, str) or not by.isprintable() or not 0 < len(by) <= MAX_NAME):
        raise ConfigurationError(f"by={shown(by)} must be 1 to {MAX_NAME} printable characters")
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
    options = session.options
    if not answers:
        failure = decode_failure(facts.failure)[0] if facts.failure else None
        if failure and failure.type in ASKING:
            raise AnswerNeeded(f"message {failure.id!r} waits for an answer: {failure.message}")
        return None
    id = id_of(member)
    (record,) = await session.net.read(keys.body(group), [("HGET", keys.body(group), id)]) if member else (None,)
    if record is None or stamp_of(record) != stamp_of(member):
        name = f"group {named(decode_group(group))}"
        if is_leased(facts.visible_us, facts.lease, facts.now_us):
            raise GroupBusy(f"{name} is held by {held_by(group, facts, options)}")
        raise AnswerRefused(f"{name} has no failed message, so there is nothing to answer")
    return _answered(written_of(record), answers, by, facts.now_us, _command("resume", options, group, id))


def answered_letter(
    session: Session, letter: str, kept: bytes, answers: Answers, by: str | None, now_us: int
) -> Written | None:
    """The ledger of a dead letter with these answers; None without any. Raises AnswerRefused, AnswerNeeded."""
    if not answers:
        return None
    name = DeadLetterName.parse(letter)
    redrive = _command("dead redrive", session.options, name.group, name.id)
    return _answered(written_of(DeadLetterContent.parse(kept).record), answers, by, now_us, redrive)


def _answered(written: Written | None, answers: Answers, by: str | None, now_us: int, again: str) -> Written:
    try:
        ledger: Ledger | None = None if written is None else decode_ledger(written.ledger)
    except LedgerError as error:
        raise AnswerRefused(f"{error}; nothing can be said of its steps") from error
    said = answers.applied(ledger, who=by or SOMEBODY, at=now_us / 1e6)
    assert written is not None
    if left := questions(said):
        names = ", ".join(entry.name for entry in left)
        raise AnswerNeeded(f"did {names} take effect? Say it too, by --done or --again: {again}")
    try:
        kept = encode_ledger(said)
        if any(result is not None for result in answers.done.values()):
            check_room(kept)
    except LedgerError as error:
        raise AnswerRefused(f"what was said can't be kept: {error}") from error
    return written.next(kept, has_effects=said.has_effects)


def _command(name: str, options: Any, group: str, id: str) -> str:
    return command(name, options.queue, *decode_group(group), namespace=options.namespace, options=id_option(id))
