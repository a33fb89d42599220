"""What is said of steps that a person has to look after: each text names the commands that settle it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from ...errors import StepMissing, StepResultInvalid, StepUnknown
from ...settings.options import QueueOptions
from ...store.ledger import Entry, Ledger
from ...values.commands import command, id_option
from .actions import Facts
from .declared import Steps


def answers(queue: QueueOptions, facts: Facts, options: Sequence[str], *, is_dead: bool = False) -> str:
    """The command that answers for steps: `sequencer resume gifts ann --id g7 --done charge`. It names the message: a
    line of the log that is used late must not answer for the next one.
    """
    name, words = "dead redrive" if is_dead else "resume", [*id_option(facts.id), *options]
    return command(name, queue.queue, *facts.group, namespace=queue.namespace, options=words)


def step_unknown(
    queue: QueueOptions, facts: Facts, asked: Sequence[Entry], cause: BaseException | None, *, is_dead: bool
) -> StepUnknown:
    """The question to a person. `cause`: what the step raised in this pass, if it ran."""
    said = "; ".join(_asked(entry, facts) for entry in asked)
    names = [entry.name for entry in asked]
    done = answers(queue, facts, [word for name in names for word in ("--done", name)], is_dead=is_dead)
    again = answers(queue, facts, [word for name in names for word in ("--again", name)], is_dead=is_dead)
    question = StepUnknown(said, tuple(names), done, again)
    question.__cause__ = cause
    return question.with_traceback(cause.__traceback__ if cause else None)


def _asked(entry: Entry, facts: Facts) -> str:
    where = f" in {facts.lost_owner}" if facts.lost_owner else ""
    moment = f"{datetime.fromtimestamp(entry.at, UTC):%Y-%m-%d %H:%M:%S} UTC"
    if entry.state == "started":
        return f"step {entry.name} began at {moment}{where}, and its end is not known"
    return f"step {entry.name} failed at {moment} ({entry.error}), and may have taken effect"


def result_invalid(queue: QueueOptions, facts: Facts, entry: Entry) -> StepResultInvalid:
    """A step is done, and what it returned is lost."""
    mend = answers(queue, facts, ["--done", entry.name, "--result", "null"])
    return StepResultInvalid(
        f"step {entry.name} is done, and will not run again, but its result can't be kept: {entry.error}; say the "
        f"result as JSON: {mend}",
        mend,
    )


def step_missing(queue: QueueOptions, facts: Facts, names: Sequence[str]) -> StepMissing:
    """Steps of another version are not done."""
    many, they, them = ("steps", "are", "them") if len(names) > 1 else ("step", "is", "it")
    done = answers(queue, facts, [word for name in names for word in ("--done", name)])
    return StepMissing(
        f"{many} {', '.join(names)} of another version {they} not done, and this version lacks {them}; run a version "
        f"that has {them}, or say that nothing is left to do: {done}"
    )


def unknown_kind(queue: QueueOptions, declared: Steps, facts: Facts) -> StepMissing:
    """No step is declared for the message."""
    known = ", ".join(sorted(declared.kinds))
    if not facts.kind:
        return StepMissing(f"the body has no text or number in field {queue.kind_by!r}, which kind_by names")
    return StepMissing(f"no step is declared for kind {facts.kind!r}; this version has {known}")


def no_answer(unanswered: int, owner: str) -> str:
    """What LeaseExpired says."""
    who = f"consumer {owner}" if owner else "its consumer"
    return (
        f"{unanswered} leases in a row ended without an answer, and no step was done meanwhile: {who} died, or stood "
        "still for longer than its lease"
    )


def no_tries(ledger: Ledger) -> str:
    """What StepFailed says."""
    failed = [f"{entry.name} ({entry.error})" for entry in ledger.entries if entry.state == "failed"]
    if not failed:
        waiting = [entry.name for entry in ledger.entries if entry.state not in ("done", "left")]
        return f"nothing can be done for {', '.join(waiting)} in this version"
    return f"no try is left for {', '.join(failed)}"


def ended(ledger: Ledger) -> str:
    """What history says of the steps of a message that ended."""
    return ", ".join(map(_ended, ledger.entries))


def _ended(entry: Entry) -> str:
    said = f"{entry.name} {entry.state}"
    if entry.who:
        said += f" by {entry.who}"
    if entry.took_s:
        said += f" in {1000 * entry.took_s:.0f} ms"
    return f"{said} ({entry.error})" if entry.error else said
