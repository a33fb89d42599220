"""The steps that a record tells of, as people see them. Pure."""

from __future__ import annotations

from ...drain.steps.rules import questions
from ...store.group import decode_group
from ...store.ledger import Entry, LedgerError, decode_ledger, step_key
from ...store.record import written_of
from ...values.history import MessageSteps, StepInfo


def record_steps(
    queue: str, group: str, id: str, record: bytes, *, is_dead: bool, token: int = 0
) -> MessageSteps | None:
    """What became of the steps of a message, of which this is the record; None where it has no ledger. Never raises.

    `token`: of the lease on its group; a step that was started under it may be running just now, and is no question.
    """
    written, parts = written_of(record), decode_group(group)
    if written is None:
        return None
    try:
        ledger = decode_ledger(written.ledger)
    except LedgerError as error:
        return MessageSteps(id, parts, is_dead, (), (), (), str(error))
    found = tuple(_info(one, step_key(queue, group, id, ledger.stamp, one)) for one in ledger.entries)
    asked = (one for one in questions(ledger) if not (one.state == "started" and token == one.token))
    return MessageSteps(id, parts, is_dead, found, ledger.log, tuple(one.name for one in asked))


def _info(one: Entry, key: str) -> StepInfo:
    end = one.at or None, one.took_s, one.who, one.result, one.error, key
    return StepInfo(one.name, one.state, one.once, one.optional, one.runs, one.turn, *end)
