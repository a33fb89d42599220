"""The sentences for what the script `repair` finds broken, and for its repair. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..calls.examine import Found
from ..store.group import decode_group
from ..store.ledger import LedgerError, decode_ledger
from ..store.ledger.written import written_at
from ..store.record import STAMP_DIGITS, DeadLetterName, id_of
from ..texts.words import named
from ..values.views import Finding


class Sentence(NamedTuple):
    """Of one thing that can be broken."""

    check: str
    problem: str
    repair: str = ""


SENTENCES = {
    "type": Sentence("keys", "key {name!r} holds another type than ours; rename or delete it"),
    "no content": Sentence(
        "dead letters", "dead letter {letter} has no content, only a place in the list", "removed from the list"
    ),
    "unlisted": Sentence("dead letters", "dead letter {letter} has no place in the list", "put into the list"),
    "no record": Sentence(
        "messages",
        "{group}: order and body differ: {id!r}, score {detail}, has no record to handle",
        "removed from the order",
    ),
    "head": Sentence(
        "messages",
        "{group}: record of {name!r} carries stamp and attempts {detail!r}",
        "stamp of the order taken, unreadable attempts set to 0",
    ),
    "score": Sentence(
        "messages",
        "{group}: record of {name!r} says that its score is its stamp, and that is {detail}",
        "the score of the order taken",
    ),
    "ledger": Sentence("messages", "{group}: the ledger of {name!r} {detail}; once it is its turn, it parks"),
    "dead ledger": Sentence("dead letters", "the ledger of dead letter {letter} {detail}; put back, it parks"),
    "skipped ledger": Sentence(
        "dead letters", "the ledger of the message that was skipped last, {letter}, {detail}; put back, it parks"
    ),
    "no place": Sentence(
        "messages",
        "{group}: order and body differ: the record of {name!r} has no place in the order",
        "made a dead letter of type Broken",
    ),
    "empty": Sentence("schedule", "{group} has 0 messages but is in the schedule", "removed from the schedule"),
    "lease": Sentence("leases", "{group} has a lease but is not in the schedule", "lease removed"),
    "failure": Sentence("failures", "{group} has a failure but is not in the schedule", "failure removed"),
    "token": Sentence(
        "leases",
        "{group} has a lease whose token is unreadable or far ahead of the clock: {detail!r}",
        "lease removed",
    ),
    "leased and parked": Sentence("leases", "{group} is leased and parked at once: {detail!r}", "lease removed"),
    "ahead": Sentence("clock", "{group} has a stamp or token {detail} ahead of the clock", "clock set forward"),
    "clock": Sentence("clock", "the shard's clock {name!r} can't be read: {detail!r}", "set to the server's time"),
    "unscheduled": Sentence(
        "schedule", "{group} has messages but is not in the schedule, so that no consumer sees it", "due now"
    ),
    "parked": Sentence("schedule", "{group} is parked without a failure or a missing number", "due now"),
    "paused": Sentence("schedule", "{group} is held as paused, but is not among the paused groups", "due now"),
}
"""Name in the script's reply -> which check it belongs to, and what is said."""

_LEDGERS = ("ledger", "dead ledger", "skipped ledger")


def judged(found: Iterable[Found]) -> list[Found]:
    """What is broken: of the ledgers, which the script tells all of, those that are, with what is wrong with them."""
    said = [(one, ledger_problem(one.detail) if one.what in _LEDGERS else one.detail) for one in found]
    return [one._replace(detail=detail) for one, detail in said if detail or one.what not in _LEDGERS]


def has_once(found: Iterable[Found]) -> bool:
    """Whether one of the ledgers that the script told has a `once` step."""
    return any(_is_once(one.detail) for one in found if one.what in _LEDGERS)


def _is_once(told: str) -> bool:
    kept = told.partition(" ")[2].encode("utf-8", "surrogateescape")
    try:
        return any(entry.once for entry in decode_ledger(written_at(kept, 0)[0].ledger).entries)
    except LedgerError:  # it is told as broken
        return False


def ledger_problem(told: str) -> str:
    """What is wrong with a ledger as its record has it, behind the shard's clock; "" for one that is sound."""
    clock, _, text = told.partition(" ")
    kept = text.encode("utf-8", "surrogateescape")
    written = written_at(kept, 0)[0]
    if written.text() != kept:
        return "has other digits before it than belong to its bytes"
    try:
        ledger = decode_ledger(written.ledger)
    except LedgerError as error:
        return f"can't be used: {error}"
    if ledger.has_effects != written.has_effects:
        return f"says effects {written.has_effects}, and its steps say {ledger.has_effects}"
    ahead = [entry.name for entry in ledger.entries if entry.token > int(clock)]
    return f"names a lease ahead of the clock, in step {ahead[0]}" if ahead else ""


def _letter(name: str) -> tuple[tuple[str, ...], str]:
    """Group and id of a dead letter; nothing of a name that no client of ours gave it."""
    stamp, group, message_id = DeadLetterName.parse(name)
    is_ours = stamp.isdecimal() and len(stamp) == STAMP_DIGITS and group and message_id
    return (decode_group(group), message_id) if is_ours else ((), "")


def finding_of(group: str, one: Found) -> Finding:
    """The finding for one row of the script's reply about this group; "" for none."""
    check, problem, repair = SENTENCES[one.what]
    parts, id = decode_group(group) if group else (), one.name if check == "messages" else ""
    if one.what == "no record":
        id = id_of(one.name)
    elif check == "dead letters":
        parts, id = _letter(one.name)
    letter = f"{id!r} of group {named(parts)}" if id else repr(one.name)  # of others: as it is
    words = {"name": one.name, "id": id, "letter": letter, "detail": one.detail}
    text = problem.format(group=f"group {named(parts)}", **words)
    if one.repaired:
        text += f"; repaired: {'parked behind its failure; resume it' if one.detail == 'failed' else repair}"
    return Finding(check, "problem", text, one.repaired, parts, id)
