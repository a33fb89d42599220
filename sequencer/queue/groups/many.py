"""What lets many groups go on: resume and skip, over all that are meant. Operations over a net.

Each page of parked groups is one script, so that a group is done whole or not at all. It compares each one's failure
with the one that was read: who failed again meanwhile, or was fixed by somebody else, is counted and left alone. So a
run ends, whatever consumers do beside it, and a rerun goes on where one was broken off.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ... import calls
from ...drain.steps.answers import Answers
from ...errors import ConfigurationError
from ...store.failure import ASKING, decode_failure, digest_of
from ...store.keys import ShardKeys
from ...store.replies import text
from ...store.watermark import advance
from ...values.checks import check_error, check_rate, fits_error, seconds_of
from ...values.durations import Duration
from ...values.message import Failure
from ...values.views import ManySummary
from ..pages import Progress, batches, paced, read
from ..session import Session
from ..views import now_of
from .head import resume_asked
from .listed import parked_names

PAGE = 50
"""Groups in one call: 0.6 ms of the server's time to resume them, 1 ms to make their heads dead letters, in which it
does nothing else; more where their failures have long tracebacks."""
FAILURES_PAGE = 100
"""Failures read by one command: with their tracebacks they are a few KB each."""


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
    """Let many parked groups go on, each with fresh attempts: those that match all given filters, or everything=True.

    `error` is a type, or a pattern with `*` for "Type: message"; `since`: failed within these seconds. The groups are
    read first. One that fails again meanwhile, or that someone else let go on, is counted and left alone; with
    everything=True, so is one that waits for a missing number. At most `rate` groups per second, if given. `dry_run`
    changes nothing. `on_progress(done, total)` is called after each page. After an error, call it again to continue.

    A group whose head waits for an answer (StepUnknown) is counted as `asked` and left alone, unless `done` or `again`
    gives one, as for `resume`: then only such groups are chosen, and all that match get the same answer. Raises
    AnswerRefused at the first group whose steps it does not match, ConfigurationError, ServerError.
    """
    wanted, answers = FailureFilter.chosen(error, since, everything, "resume_many"), Answers.of(done, again, by=by)
    return await _run(session, wanted, "", answers, rate=rate, dry_run=dry_run, on_progress=on_progress)


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

    With `discard` the heads are deleted for good. Missing numbers are not skipped. Raises like `resume_many`.
    """
    wanted = FailureFilter.chosen(error, since, everything, "skip_many")
    ending: calls.Ending = "discard" if discard else "dead"
    return await _run(session, wanted, ending, rate=rate, dry_run=dry_run, on_progress=on_progress)


async def _run(
    session: Session,
    wanted: FailureFilter,
    ending: calls.Ending,
    answers: Answers | None = None,
    *,
    rate: float | None,
    dry_run: bool,
    on_progress: Progress | None,
) -> ManySummary:
    rate = None if rate is None else check_rate(rate)
    await session.allow("operate")
    found, counts = await choose(session, wanted), Counter[str]()
    chosen = found if ending else found.only(asking=bool(answers))
    # With answers one after the other: each ledger is read, and written with the answer.
    by_shard = [] if dry_run else chosen.by_shard
    async for keys, some in paced(session.net, by_shard, 1 if answers else PAGE, rate):
        if answers:
            counts[await resume_asked(session, keys, some[0].group, some[0].digest, answers)] += 1
        else:
            groups = await _marked(session, keys, some) if ending else some
            answer = await session.net.ask(calls.resume_many(keys, groups, ending=ending))
            # After a repeat, what is not parked any more went on with the first attempt.
            counts.update("resumed" if answer.is_repeat and one == "gone" else one for one in answer.value)
        if on_progress:
            on_progress(counts.total(), chosen.total)
    others = found.others + Counter(found.only(asking=False).errors if answers else {})
    return ManySummary(
        chosen=chosen.total,
        done=counts["resumed"],
        changed=counts["changed"] + counts["gone"],
        waiting=0 if answers else chosen.waiting,
        errors=chosen.errors,
        is_dry_run=dry_run,
        others=dict(others.most_common()),
        asked=0 if answers else found.total - chosen.total,
    )


async def _marked(
    session: Session, keys: ShardKeys, groups: Sequence[calls.ParkedGroup]
) -> Sequence[calls.ParkedGroup]:
    """In a sequence, with the watermark of each behind its failed head: nothing moves it before that goes."""
    if not (await session.policy()).sequence:
        return groups

    def marked(marks: list[bytes | None], *scores: bytes | None) -> list[calls.ParkedGroup]:
        return [
            one._replace(mark=advance(text(mark or b"#0"), [score.decode()])) if score else one
            for one, mark, score in zip(groups, marks, scores, strict=True)
        ]

    scores = [("ZSCORE", keys.order(one.group), one.member) for one in groups]
    return await read(session.net, marked, ("HMGET", keys.sequences, *[one.group for one in groups]), *scores)


# -- which are meant --------------------------------------------------------------------------------------------


class FailureFilter(NamedTuple):
    """Which parked groups: those whose failure fits all that is given."""

    error: str | None = None
    """A pattern with `*` and `?` for "Type: message", or a type alone."""
    since_s: float | None = None
    """Only what failed within this many seconds."""

    @classmethod
    def chosen(cls, error: str | None, since: Duration | None, everything: bool, action: str) -> FailureFilter:
        """From a caller's arguments; all of them only with `everything`. Raises ConfigurationError."""
        if everything == (error is not None or since is not None):
            raise ConfigurationError("nothing_chosen", action=action, by="error or since")
        check_error(error)
        return cls(error, None if since is None else seconds_of("since", since))

    def fits(self, failure: Failure, now_s: float) -> bool:
        is_recent = self.since_s is None or failure.at >= now_s - self.since_s
        return is_recent and fits_error(self.error, failure)


class Chosen(NamedTuple):
    by_shard: list[tuple[ShardKeys, list[calls.ParkedGroup]]]
    waiting: int
    """Parked groups without a failure: they wait for a missing number. Only counted where all are meant."""
    others: Counter[str]
    """Those that did not fit, by type of error."""

    @property
    def total(self) -> int:
        return sum(len(groups) for _, groups in self.by_shard)

    @property
    def errors(self) -> dict[str, int]:
        return dict(Counter(group.error for _, groups in self.by_shard for group in groups).most_common())

    def only(self, *, asking: bool) -> Chosen:
        """Those that wait for an operator's answer, or the others."""
        by_shard = [(keys, [one for one in some if (one.error in ASKING) == asking]) for keys, some in self.by_shard]
        return self._replace(by_shard=by_shard)


async def choose(session: Session, wanted: FailureFilter) -> Chosen:
    by_shard, waiting, others = [], 0, Counter[str]()
    for keys in await session.shards():
        now_s = await now_of(session.net) / 1e6
        found: list[calls.ParkedGroup] = []
        async for names in parked_names(session.net, keys):
            for some in batches(names, FAILURES_PAGE):
                records: list[bytes | None] = await read(session.net, list, ("HMGET", keys.failures, *some))
                for name, record in zip(some, records, strict=True):
                    failure, member = decode_failure(record or b"")
                    if record is None:
                        waiting += wanted == FailureFilter()
                    elif wanted.fits(failure, now_s):
                        found.append(calls.ParkedGroup(text(name), digest_of(record), member, failure.type))
                    else:
                        others[failure.type] += 1
        by_shard.append((keys, found))
    return Chosen(by_shard, waiting, others)
