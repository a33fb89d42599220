"""Texts about steps that need an operator; each names the commands that settle it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import Outage, StepMissing, StepResultInvalid, StepUnknown
from ...settings.options import QueueOptions
from ...store.ledger import Entry, Ledger
from ...texts.commands import answer_options, command, id_option
from ...texts.words import many, moment
from .actions import PassFacts
from .declared import Steps


def answers(queue: QueueOptions, facts: PassFacts, options: Sequence[str], *, is_dead: bool = False) -> str:
    """The command that answers for steps: `sequencer resume gifts ann --id g7 --done charge`. It names the message: a
    line of the log that is used late must not answer for the next one.
    """
    name, words = "dead redrive" if is_dead else "resume", [*id_option(facts.message.id), *options]
    return command(name, queue.queue, *facts.message.group, namespace=queue.namespace, options=words)


def step_unknown(
    queue: QueueOptions, facts: PassFacts, asked: Sequence[Entry], cause: BaseException | None
) -> StepUnknown:
    """The question to an operator. `cause`: what the step raised in this pass, if it ran."""
    said = "; ".join(_asked(entry, facts) for entry in asked)
    runs, is_dead = {entry.name: entry.runs for entry in asked}, queue.on_unresolved == "dead_letter"
    done, again = (
        answers(queue, facts, answer_options(option, runs), is_dead=is_dead) for option in ("--done", "--again")
    )
    question = StepUnknown(said, tuple(runs), done, again)
    question.__cause__ = cause
    return question.with_traceback(cause.__traceback__ if cause else None)


def _asked(entry: Entry, facts: PassFacts) -> str:
    where = f" in {facts.lost_owner}" if facts.lost_owner else ""
    if entry.state == "started":
        return f"step {entry.name} began at {moment(entry.at)}{where}, and its outcome is unknown"
    return f"step {entry.name} failed at {moment(entry.at)} ({entry.error}), and may have taken effect"


def result_invalid(queue: QueueOptions, facts: PassFacts, entry: Entry) -> StepResultInvalid:
    """A step is done, and what it returned is lost."""
    fix = answers(queue, facts, ["--done", entry.name, "--result", "null"])
    return StepResultInvalid(
        f"step {entry.name} is done and will not run again, but its result can't be kept: {entry.error}", fix
    )


def not_begun(queue: QueueOptions, name: str) -> Outage:
    """The start of a step may be lost at a failover, so the step was not called."""
    wanted = queue.wait_replicas
    who = "the replica did not confirm" if wanted == 1 else f"fewer than {many(wanted, 'replica')} confirmed"
    within = f"within {queue.wait_timeout_s:g} s (wait_replicas={wanted})"
    return Outage(f"step {name} was not called: {who} its start {within}")


def step_missing(queue: QueueOptions, facts: PassFacts, names: Sequence[str]) -> StepMissing:
    """Steps of another version are not done."""
    many, they, them = ("steps", "are", "them") if len(names) > 1 else ("step", "is", "it")
    done = answers(queue, facts, [word for name in names for word in ("--done", name)])
    return StepMissing(
        f"{many} {', '.join(names)} of another version {they} not done, and this version lacks {them}; run a version "
        f"that has {them}, or confirm that nothing is left to do: {done}",
        tuple(names),
    )


def unknown_kind(
    queue: QueueOptions, declared: Steps, facts: PassFacts, missing: tuple[str, ...], *, is_kept: bool
) -> StepMissing:
    """No step is declared for the message. `is_kept`: it is not dropped, though `on_unknown` says so."""
    known = ", ".join(sorted(declared.kinds))
    said = f"no step is declared for kind {facts.kind!r}; this version has {known}"
    if not facts.kind:
        said = f"the body has no text or number in field {queue.kind_by!r}, which kind_by names"
    return StepMissing(
        f"{said}; parked, not dropped, because some of its steps took effect" if is_kept else said, missing
    )


def no_answer(unanswered: int, owner: str) -> str:
    """The text of LeaseExpired."""
    who = f"consumer {owner}" if owner else "its consumer"
    return (
        f"{many(unanswered, 'lease')} in a row ended without a result, and no step was done meanwhile: {who} died, or "
        "stalled for longer than its lease"
    )


def no_attempts(ledger: Ledger) -> str:
    """The text of StepFailed."""
    failed = [f"{entry.name} ({entry.error})" for entry in ledger.entries if entry.state == "failed"]
    if failed:
        return f"no attempt is left for {', '.join(failed)}"
    waiting = [entry.name for entry in ledger.entries if entry.state not in ("done", "left")]
    return f"nothing can be done for {', '.join(waiting)} in this version"


def ended(ledger: Ledger) -> str:
    """How the history shows the steps of an ended message."""
    return ", ".join(map(_ended, ledger.entries))


def _ended(entry: Entry) -> str:
    said = f"{entry.name} {entry.state}"
    if entry.who:
        said += f" by {entry.who}"
    if entry.took_s:
        said += f" in {1000 * entry.took_s:.0f} ms"
    return f"{said} ({entry.error})" if entry.error else said
