"""Commands that let groups go on or hold them back, one or many: resume, skip, unskip, pause, unpause."""

from __future__ import annotations

from typing import Annotated, Any

from typer import Option

from ..client import Sequencer
from ..errors import ConfigurationError
from ..texts.words import many, named, plain
from ..values.views import Gap, as_json
from .app import GroupArgument, OptionalGroupArgument, app, queue_command, text_of
from .many import (
    AllOption,
    DryRunOption,
    ErrorOption,
    OnlyIdOption,
    RateOption,
    SinceOption,
    YesOption,
    answer_of_many,
    confirm,
    is_for_many,
    progress,
    refuse,
)
from .output import Answer, json_text
from .steps import AgainOption, AttemptOption, DoneOption, ResultOption, answers, steps_text


@queue_command(app)
def resume(
    client: Sequencer,
    group: OptionalGroupArgument = None,
    id: OnlyIdOption = None,
    everything: AllOption = False,
    error: ErrorOption = None,
    since: SinceOption = None,
    rate: RateOption = None,
    dry_run: DryRunOption = False,
    outage: Annotated[bool, Option("--outage", help="During an outage: attempt one message now.")] = False,
    done: DoneOption = None,
    result: ResultOption = None,
    again: AgainOption = None,
    attempt: AttemptOption = None,
) -> Answer:
    """Let a parked or waiting group go on now, or many at once.

    Its head gets fresh attempts. If the head has a `once` step of unknown outcome, --done STEP confirms that it took
    effect, --again STEP that it did not. --done also skips a step that must not run at all.

    --all, --error and --since read the groups first; one that fails again meanwhile is left alone. Exits with 1 if some
    were left alone. If interrupted, run it again.
    """
    said = answers(done, result, again, attempt)
    if outage:
        if group or everything or dry_run or any(one is not None for one in (id, error, since, rate)):
            raise ConfigurationError("outage_of_whole_queue")
        is_probing = client.probe_outage()
        text = text_of(client, "probing" if is_probing else "no_outage")
        return Answer({"queue": client.queue, "probing": is_probing}, text)
    if is_for_many(group, everything, error, since):
        refuse("option_of_one_group", id=id, attempt=attempt)
        del said["attempts"]
        said |= {"error": error, "since": since, "everything": everything, "rate": rate, "dry_run": dry_run}
        with progress("resuming") as update:
            summary = client.resume_many(**said, on_progress=update)
        return answer_of_many(client, summary, "resumed")
    refuse("option_of_many_groups", rate=rate, dry_run=dry_run)
    is_resumed = client.resume(group or [], id=id, **said)
    found = client.explain(group or [])
    is_paused = found.reason in ("paused", "queue paused")
    code = ("resumed_but_paused" if is_paused else "resumed") if is_resumed else "already_due"
    text = text_of(client, code, group=group, text=found.text)
    return Answer({"group": group, "resumed": is_resumed, "paused": is_paused}, text)


@queue_command(app)
def skip(
    client: Sequencer,
    group: OptionalGroupArgument = None,
    id: OnlyIdOption = None,
    dead_letter: Annotated[bool, Option("--dead-letter", help="Make it a dead letter.")] = False,
    everything: AllOption = False,
    error: ErrorOption = None,
    since: SinceOption = None,
    discard: Annotated[bool, Option("--discard", help="For many groups: delete the messages for good.")] = False,
    yes: YesOption = False,
    rate: RateOption = None,
    dry_run: DryRunOption = False,
) -> Answer:
    """Remove the failed head of a group, and let the group go on.

    Prints the removed message; `unskip` puts it back.

    It also removes a head whose lease expired while a consumer had it in progress. If every handler hangs on a message:
    pause the group, kill the consumer, then skip the message. In a sequence that waits for missing numbers, it skips
    those numbers instead.

    With --all, --error or --since, the failed heads of many parked groups become dead letters; with --discard, which
    asks first, they are deleted for good. A message whose steps took effect is removed only with --yes; the outcome of
    its steps is printed too.
    """
    if dead_letter and discard:
        raise ConfigurationError("not_both", one="--dead-letter", other="--discard")
    if is_for_many(group, everything, error, since):
        refuse("option_of_one_group", id=id)
        how = {"error": error, "since": since, "everything": everything, "rate": rate}
        return _skip_many(client, how, discard, yes, dry_run)
    refuse("option_of_many_groups", discard=discard, rate=rate, dry_run=dry_run)
    return _skip_one(client, group or [], id, dead_letter, yes)


def _skip_many(client: Sequencer, how: Any, discard: bool, yes: bool, dry_run: bool) -> Answer:
    if discard and not dry_run and not yes:
        count = client.skip_many(**how, dry_run=True).chosen
        confirm(client, "discard", count=count)
    with progress("skipping") as update:
        done = client.skip_many(**how, discard=discard, dry_run=dry_run, on_progress=update)
    hint = text_of(client, "put_back", error=how["error"]) if done.done and not discard else ""
    return answer_of_many(client, done, "skipped", "discarded" if discard else "dead-lettered", hint)


def _skip_one(client: Sequencer, group: list[str], id: str | None, dead_letter: bool, yes: bool) -> Answer:
    skipped = client.skip(group, id=id, dead_letter=dead_letter, yes=yes)
    if isinstance(skipped, Gap):
        return Answer(skipped, text_of(client, "numbers_skipped", **as_json(skipped)))
    is_paused = client.explain(group).reason in ("paused", "queue paused")
    about = {"group": skipped.group, "id": skipped.id, "dead_letter": dead_letter, "is_paused": is_paused}
    hint = text_of(client, "skipped", **about)
    if skipped.steps:
        hint += f"\n{steps_text(client, skipped.steps, asks=dead_letter)}"
    fields = as_json(skipped)
    fields["attempts"] = fields.pop("attempt") - 1  # the next one would have been that
    return Answer({**fields, "steps": as_json(skipped.steps)}, json_text(fields), hint=hint)


@queue_command(app)
def unskip(client: Sequencer, group: GroupArgument, id: OnlyIdOption = None) -> Answer:
    """Put the last skipped message back into its place.

    It gets fresh attempts. It is kept until the next skip in its shard.
    """
    message = client.unskip(group, id=id)
    return Answer(message, f"{plain(message.id)} is back in group {named(group)}")


@queue_command(app)
def pause(client: Sequencer, group: OptionalGroupArgument = None) -> Answer:
    """Pause a group, or without PART the whole queue.

    Takes effect at the next claim: running handlers finish, and appends go on. It lasts until `unpause`, even through
    restarts. A group may be paused before it has messages.
    """
    is_changed = client.pause(group or None)
    return _paused(client, "paused", group, is_changed)


@queue_command(app)
def unpause(
    client: Sequencer,
    group: OptionalGroupArgument = None,
    everything: Annotated[bool, Option("--all", help="Every individually paused group.")] = False,
) -> Answer:
    """Let a paused group, or without PART a paused queue, go on.

    Without --all, individually paused groups stay paused.
    """
    if everything and group:
        raise ConfigurationError("not_both", one="PART...", other="--all")
    if everything:
        count = sum(client.unpause(one) for one in client.paused_groups())
        return Answer({"queue": client.queue, "unpaused": count}, f"unpaused {many(count, 'group')}")
    is_changed = client.unpause(group or None)
    return _paused(client, "unpaused", group, is_changed)


def _paused(client: Sequencer, code: str, group: list[str] | None, is_changed: bool) -> Answer:
    text = text_of(client, code, group=group, changed=is_changed)
    return Answer({"queue": client.queue, "group": group or None, "changed": is_changed}, text)
