"""What lets many groups go on: resume, skip and unpause, over all that are meant. Operations over a net.

Each page of parked groups is one script, so that a group is done whole or not at all. It compares each one's failure
with the one that was read: who failed again meanwhile, or was fixed by somebody else, is counted and left alone. So a
run ends, whatever consumers do beside it, and a rerun goes on where one was broken off.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from ... import calls
from ...calls.net_protocol import Answer, Net
from ...drain.steps.answers import Answers
from ...errors import ConfigurationError
from ...store.keys import ShardKeys
from ...store.replies import Reading, text, texts
from ...store.watermark import advance
from ...values.checks import check_rate
from ...values.durations import Duration
from ...values.views import ManySummary
from ..paced import paced, pages_of
from ..session import Session
from ..steps.answers import given_answers
from .choice import FailureFilter, choose, most_first
from .head import resume_asked

T = TypeVar("T")
PAGE = 50
"""Groups in one call: 0.6 ms of the server's time to resume them, 1 ms to make their heads dead letters, in which it
does nothing else; more where their failures have long tracebacks."""
Progress = Callable[[int, int], object]
"""Called after each page: how many groups were done or left so far, and how many there are."""


async def resume_many(
    session: Session,
    *,
    error: str | None = None,
    since: Duration | None = None,
    everything: bool = False,
    rate: float | None = None,
    dry_run: bool = False,
    on_progress: Progress | None = None,
    done: Mapping[str, Any] | None = None,
    again: Sequence[str] = (),
    by: str | None = None,
) -> ManySummary:
    """Let many parked groups go on, each with fresh attempts: those that fit all that is given, or everything=True.

    `error` is a type, or a pattern with `*` for "Type: message"; `since`: failed within so many seconds. The groups are
    read first. One that fails again meanwhile, or that somebody else let go on, is counted and left alone; so is, where
    all are meant, one that waits for a missing number. At most `rate` groups a second, if given. With `dry_run` nothing
    is changed. `on_progress(done, total)` is called now and then. After an error, a rerun goes on.

    A group whose head waits for an answer (StepUnknown) is counted as `asked` and left alone, unless `done` or `again`
    give one, as for `resume`: then only such groups are meant, and all that fit get the same answer. Raises
    AnswerRefused at the first whose steps it does not fit, ConfigurationError, ServerError.
    """
    wanted, answers = FailureFilter.chosen(error, since, everything, "resume_many"), given_answers(done, again, by)
    how = _how(rate, dry_run, on_progress)
    if answers:
        return await _run_answered(session, wanted, answers, by, how)
    return await _run(session, wanted, "", how)


async def skip_many(
    session: Session,
    *,
    error: str | None = None,
    since: Duration | None = None,
    everything: bool = False,
    discard: bool = False,
    rate: float | None = None,
    dry_run: bool = False,
    on_progress: Progress | None = None,
) -> ManySummary:
    """Make the failed heads of many parked groups dead letters, and let the groups go on; chosen as for `resume_many`.

    With `discard` the heads are gone for good. A missing number is not stepped over. Raises as `resume_many`.
    """
    wanted = FailureFilter.chosen(error, since, everything, "skip_many")
    return await _run(session, wanted, "discard" if discard else "dead", _how(rate, dry_run, on_progress))


async def unpause_many(
    session: Session,
    *,
    everything: bool = False,
    rate: float | None = None,
    dry_run: bool = False,
    on_progress: Progress | None = None,
) -> ManySummary:
    """Let every group go on that was paused by itself (everything=True); a pause of the whole queue stays.

    One that somebody else let go on meanwhile is counted as changed. Where none is paused, `others` has the groups that
    are parked. Raises as `resume_many`.
    """
    if not everything:
        raise ConfigurationError("nothing_chosen", action="unpause_many", by="a group (unpause)")
    how = _how(rate, dry_run, on_progress)
    await session.allow("operate")
    names = [(keys, await _paused_names(session.net, keys)) for keys in await session.shards()]
    total, done, passed = sum(len(some) for _, some in names), 0, 0
    others = {} if total else (await choose(session, FailureFilter())).errors
    async for keys, some in paced(session.net, pages_of([] if dry_run else names, PAGE, how.rate), how.rate):
        answer = await session.net.ask_all([calls.pause(keys, name, False) for name in some])
        done += len(some) if answer.is_repeat else sum(answer.value)
        passed += len(some)
        how.tell(passed, total)
    return ManySummary(total, done, passed - done, 0, {}, dry_run, others)


# -- how all of them do it -------------------------------------------------------------------------------------


class _How(NamedTuple):
    """What a caller says besides which groups."""

    rate: float | None
    dry_run: bool
    on_progress: Progress | None

    def tell(self, done: int, total: int) -> None:
        if self.on_progress:
            self.on_progress(done, total)


def _how(rate: float | None, dry_run: bool, on_progress: Progress | None) -> _How:
    """Raises ConfigurationError for a wrong rate."""
    return _How(None if rate is None else check_rate(rate, "groups"), dry_run, on_progress)


async def _run(session: Session, wanted: FailureFilter, ending: calls.Ending, how: _How) -> ManySummary:
    await session.allow("operate")
    found, counts = await choose(session, wanted), Counter[str]()
    chosen = found if ending else found.without_unresolved()
    async for keys, some in paced(
        session.net, pages_of([] if how.dry_run else chosen.by_shard, PAGE, how.rate), how.rate
    ):
        groups = await _marked(session, keys, some) if ending else some
        answer = await session.net.ask(calls.resume_many(keys, groups, ending=ending))
        with Reading(session.net.name):
            counts.update(_outcomes(answer))
        how.tell(counts.total(), chosen.total)
    changed, others = counts["changed"] + counts["gone"], most_first(chosen.others)
    asked = found.total - chosen.total
    return ManySummary(
        chosen.total, counts["resumed"], changed, chosen.waiting, chosen.errors, how.dry_run, others, asked
    )


async def _run_answered(
    session: Session, wanted: FailureFilter, answers: Answers, by: str | None, how: _How
) -> ManySummary:
    """One after the other: each ledger is read, and written with the answer."""
    await session.allow("operate")
    found, counts = await choose(session, wanted), Counter[str]()
    chosen = found.questions()
    others = most_first(found.others + Counter(found.without_unresolved().errors))
    pages = pages_of([] if how.dry_run else chosen.by_shard, 1)
    async for keys, (one,) in paced(session.net, pages, how.rate):
        counts[await resume_asked(session, keys, one.group, one.digest, answers, by)] += 1
        how.tell(counts.total(), chosen.total)
    return ManySummary(chosen.total, counts["resumed"], counts["changed"], 0, chosen.errors, how.dry_run, others)


def _outcomes(answer: Answer[list[calls.Resuming]]) -> list[calls.Resuming]:
    """After a repeated call, a group that is not parked any more went on with the first attempt."""
    return ["resumed" if answer.is_repeat and one == "gone" else one for one in answer.value]


async def _marked(session: Session, keys: ShardKeys, groups: Sequence[calls.ParkedGroup]) -> list[calls.ParkedGroup]:
    """In a sequence, with the watermark of each behind its failed head: nothing moves it before that goes."""
    if not (await session.policy()).sequence:
        return list(groups)
    names = [one.group for one in groups]
    scores = [("ZSCORE", keys.order(one.group), one.member) for one in groups]
    marks, *found = await session.net.read(keys.numbers, [("HMGET", keys.numbers, *names), *scores])
    with Reading(session.net.name):
        return [
            one._replace(mark=advance(text(mark or b"#0"), [score.decode()])) if score else one
            for one, mark, score in zip(groups, marks, found, strict=True)
        ]


async def _paused_names(net: Net, keys: ShardKeys) -> list[str]:
    (words,) = await net.read(keys.paused, [("SMEMBERS", keys.paused)])
    with Reading(net.name):
        return texts(words)
