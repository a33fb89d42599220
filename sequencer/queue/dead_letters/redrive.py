"""What puts dead letters back into their own places, or deletes them. Operations over a net."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ... import calls
from ...calls.net_protocol import Net
from ...drain.steps.answers import Answers
from ...errors import AnswerNeeded, IdConflict, MessageNotFound, SequencerError
from ...store.failure import ASKING, digest_of
from ...store.group import decode_group
from ...store.item import Group, Id
from ...store.keys import ShardKeys
from ...store.record import DeadLetterContent, DeadLetterName
from ...store.replies import Reading, micros
from ...values.checks import check_rate
from ...values.views import Redriven
from ..pages import Progress, batches, paced
from ..session import Session
from ..steps.answers import answered_letter
from .listed import NAMES_PAGE, PAGE, DeadLetterFilter, SeenDeadLetter, by_shard

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
    on_progress: Progress | None = None,
    done: Mapping[str, Any] | None = None,
    again: Sequence[str] = (),
    attempts: Mapping[str, int] | None = None,
    by: str | None = None,
) -> Redriven:
    """Put dead letters back into their own places: same group, id, score and stamp, with fresh attempts.

    Those that match all given filters, or all with `everything=True`; `error` is a type, or a pattern with `*` for
    "Type: message". At most `rate` messages per second. One is left alone if a message with its id is pending again, or
    was handled within the queue's `dedup_window`, or if it died again after it was read. Steps that are done stay done.
    `on_progress(done, total)` is called after each page.

    One with an unresolved `once` step is left alone too, unless an operator answers for it: `done`, `again` and
    `attempts`, as for `resume`; they apply to each dead letter that matches. Raises MessageNotFound if a given `id` is
    not there, IdConflict if it was given and all are left alone, AnswerNeeded, AnswerRefused, ConfigurationError.
    """
    wanted = DeadLetterFilter.chosen(group, id, error, everything, "redrive")
    answers = Answers.of(done, again, attempts, by)
    check_rate(rate)
    net, stay = session.net, dict[str, list[SeenDeadLetter]](pending=[], handled=[], changed=[], asked=[])
    await session.allow("operate")
    by_keys = await by_shard(session, wanted)
    if not answers:
        stay["asked"] = [one for _, letters in by_keys for one in letters if one.error in ASKING]
        by_keys = [(keys, [one for one in letters if one.error not in ASKING]) for keys, letters in by_keys]
    went: dict[ShardKeys, list[str]] = {keys: [] for keys, _ in by_keys}
    total, seen = sum(len(letters) for _, letters in by_keys), 0
    async for keys, some in paced(net, by_keys, 1 if answers else PAGE, rate):
        answer = await net.ask(await _redriving(session, keys, some, answers))
        for letter, outcome in zip(some, answer.value, strict=True):
            # After a repeated call, one that is missing went with the first attempt.
            if outcome == "redriven" or (outcome == "missing" and answer.is_repeat):
                went[keys].append(letter.name)
            elif outcome in stay:
                stay[outcome].append(letter)
        seen += len(some)
        if on_progress:
            on_progress(seen, total)
    redriven = sum(map(len, went.values()))
    if id is not None and not redriven:
        raise _refusal(session, id, stay)
    names = [DeadLetterName.parse(one.name) for letters in stay.values() for one in letters][:NAMED]
    stayed = tuple((decode_group(name.group), name.id) for name in names)
    pending, handled, changed, asked = map(len, stay.values())
    return Redriven(redriven, pending, await _parked(net, went), handled, stayed, changed, asked)


async def purge(
    session: Session,
    group: Group | None = None,
    *,
    id: Id | None = None,
    error: str | None = None,
    everything: bool = False,
) -> int:
    """Delete dead letters for good, chosen as for `redrive`; returns how many.

    Harmless to repeat. Raises like `redrive`.
    """
    wanted = DeadLetterFilter.chosen(group, id, error, everything, "purge")
    await session.allow("operate")
    count = 0
    async for keys, some in paced(session.net, await by_shard(session, wanted), PAGE):
        answer = await session.net.ask(calls.purge(keys, [one.name for one in some]))
        # After a repeated call, those that were not there any more went with the first attempt.
        count += len(some) if answer.is_repeat else answer.value
    if id is not None and not count:
        raise MessageNotFound("dead_letter_not_found", id=str(id), **session.names)
    return count


async def _redriving(
    session: Session, keys: ShardKeys, some: Sequence[SeenDeadLetter], answers: Answers
) -> calls.Call[list[calls.Redriving]]:
    names, digests = [one.name for one in some], [one.digest for one in some]
    if not answers:
        return calls.redrive(keys, names, digests=digests)
    time, kept = await session.net.read([("TIME",), ("HGET", keys.dead_letters, names[0])])
    if kept is None:
        return calls.redrive(keys, names, digests=digests)
    with Reading(session.net.name):
        now_us, digest = micros(time), digest_of(DeadLetterContent.parse(kept).failure)
    written = answered_letter(session, names[0], kept, answers, now_us)
    return calls.redrive(keys, names, digests=[digest], written=written)


async def _parked(net: Net, went: dict[ShardKeys, list[str]]) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for keys, letters in went.items():
        groups = list(dict.fromkeys(DeadLetterName.parse(letter).group for letter in letters))
        for some in batches(groups, NAMES_PAGE):
            times = await net.read([("ZSCORE", keys.schedule, group) for group in some])
            found += [decode_group(group) for group, at in zip(some, times, strict=True) if at == b"inf"]
    return found[:NAMED]


def _refusal(session: Session, id: Id, stay: Mapping[str, Sequence[SeenDeadLetter]]) -> SequencerError:
    for why, letters in stay.items():
        for letter in letters:
            group = decode_group(DeadLetterName.parse(letter.name).group)
            about: dict[str, Any] = {"id": str(id), "group": group, **session.names}
            return AnswerNeeded("dead_letter_asks", **about) if why == "asked" else IdConflict(f"stays_{why}", **about)
    return MessageNotFound("dead_letter_not_found", id=str(id), **session.names)
