"""What puts dead letters back into their own places. An operation over a net."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ... import calls
from ...calls.net_protocol import Answer, Net
from ...drain.steps.answers import Answers
from ...errors import AnswerNeeded, IdConflict
from ...store.failure import ASKING, digest_of
from ...store.group import decode_group
from ...store.item import Group, Id
from ...store.keys import ShardKeys
from ...store.record import DeadLetterContent, DeadLetterName
from ...store.replies import Reading, micros
from ...texts.words import named
from ...values.checks import check_rate
from ...values.views import Redriven
from ..session import Session
from ..steps.answers import answered_letter, given_answers
from .listed import NAMES_PAGE, PAGE, DeadLetterFilter, SeenDeadLetter, by_shard, cut, not_found

NAMED = 100
"""How many of those that stay, and of parked groups, are named."""


async def redrive(
    session: Session,
    group: Group | None = None,
    *,
    id: Id | None = None,
    error: str | None = None,
    everything: bool = False,
    rate: float = 1000.0,
    done: Mapping[str, Any] | None = None,
    again: Sequence[str] = (),
    attempts: Mapping[str, int] | None = None,
    by: str | None = None,
) -> Redriven:
    """Put dead letters back into their own places: same group, id, score and stamp, with fresh attempts.

    Those that fit all that is given, or all with `everything=True`; `error` is a type, or a pattern with `*` for
    "Type: message". At most `rate` messages a second. One stays a dead letter when a message with its id is pending
    again, or was handled since, within the queue's `dedup_window`, or when it died anew after it was read here. Steps
    that are done stay done.

    One with an unresolved `once` step stays, too, unless an operator answers for it: `done`, `again` and `attempts`, as
    for `resume`; they apply to each letter that fits. Raises MessageNotFound when an `id` was given and
    is not there, IdConflict when it was given and all stay, AnswerNeeded, AnswerRefused, ConfigurationError.
    """
    wanted = DeadLetterFilter.chosen(group, id, error, everything, "redrive")
    answers = given_answers(done, again, by, attempts)
    size, net = max(1, min(PAGE, int(check_rate(rate) / 10))), session.net
    await session.allow("operate")
    began, sent = await net.now(), 0
    went: dict[ShardKeys, list[str]] = {}
    stay: dict[str, list[SeenDeadLetter]] = {"pending": [], "handled": [], "changed": [], "asked": []}
    for keys, letters in await by_shard(session, wanted):
        went[keys] = []
        for some in cut(letters if answers else _unasked(letters, stay["asked"]), 1 if answers else size):
            ahead_s = began + sent / rate - await net.now()
            if ahead_s > 0:
                await net.sleep(ahead_s)
            answer = await net.ask(await _redriving(session, keys, some, answers, by))
            with Reading(net.name):
                went[keys] += _gone([one.name for one in some], answer)
                for letter, outcome in zip(some, answer.value, strict=True):
                    if outcome in stay:
                        stay[outcome].append(letter)
            sent += len(some)
    redriven = sum(map(len, went.values()))
    if id is not None and not redriven:
        raise _refusal(id, stay) or not_found(id, session)
    names = [DeadLetterName.parse(one.name) for letters in stay.values() for one in letters][:NAMED]
    stayed = tuple((decode_group(name.group), name.id) for name in names)
    pending, handled, changed, asked = map(len, stay.values())
    return Redriven(redriven, pending, await _parked(net, went), handled, stayed, changed, asked)


async def _redriving(
    session: Session, keys: ShardKeys, some: Sequence[SeenDeadLetter], answers: Answers, by: str | None
) -> calls.Call[list[calls.Redriving]]:
    """The call that puts them back, each only while its failure is the one that was seen."""
    names, digests = [one.name for one in some], [one.digest for one in some]
    if not answers:
        return calls.redrive(keys, names, digests=digests)
    time, kept = await session.net.read(keys.letters, [("TIME",), ("HGET", keys.letters, names[0])])
    if kept is None:
        return calls.redrive(keys, names, digests=digests)
    with Reading(session.net.name):
        now_us, digest = micros(time), digest_of(DeadLetterContent.parse(kept).failure)
    written = answered_letter(session, names[0], kept, answers, by, now_us)
    return calls.redrive(keys, names, digests=[digest], written=written)


def _unasked(letters: Sequence[SeenDeadLetter], asked: list[SeenDeadLetter]) -> list[SeenDeadLetter]:
    """Those without an unresolved step; the others are noted in `asked`."""
    asked += [one for one in letters if one.error in ASKING]
    return [one for one in letters if one.error not in ASKING]


async def _parked(net: Net, went: dict[ShardKeys, list[str]]) -> list[tuple[str, ...]]:
    """The groups of these letters that are parked."""
    found: list[tuple[str, ...]] = []
    for keys, letters in went.items():
        for some in cut(list(dict.fromkeys(DeadLetterName.parse(letter).group for letter in letters)), NAMES_PAGE):
            times = await net.read(keys.schedule, [("ZSCORE", keys.schedule, group) for group in some])
            found += [decode_group(group) for group, at in zip(some, times, strict=True) if at == b"inf"]
    return found[:NAMED]


def _refusal(id: Id, stay: Mapping[str, Sequence[SeenDeadLetter]]) -> IdConflict | AnswerNeeded | None:
    """Why none with this id went back."""
    why = {
        "pending": "a message with its id is pending again; see get",
        "handled": "a message with its id was handled since, within dedup_window: to have it handled once more, append "
        "it with replace",
        "changed": "it died anew meanwhile; look again",
    }
    for kind, letters in stay.items():
        for letter in letters:
            group = decode_group(DeadLetterName.parse(letter.name).group)
            if kind == "asked":
                said = f"dead letter {id!r} of group {named(group)} waits for an answer"
                return AnswerNeeded(f"{said}: say done= or again= of each step in question; see steps, or dead show")
            return IdConflict(str(id), group, f"dead letter {id!r} of group {named(group)} stays one: {why[kind]}")
    return None


def _gone(letters: Sequence[str], answer: Answer[list[calls.Redriving]]) -> list[str]:
    """Those that are back in their places. After a repeated call, one that is missing went with the first attempt."""
    went = ("redriven", "missing") if answer.is_repeat else ("redriven",)
    return [letter for letter, outcome in zip(letters, answer.value, strict=True) if outcome in went]
