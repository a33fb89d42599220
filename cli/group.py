"""Commands that let groups go on or hold them back, one or many: resume, skip, unskip, pause, unpause."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ..client import Sequencer
from ..errors import ConfigurationError
from ..texts.commands import command, id_option
from ..texts.words import many, named, plain
from ..values.views import Gap, as_json
from .app import FINE, GroupArgument, JsonOption, OptionalGroupArgument, app, call_option, queue_command
from .many import (
    AllOption,
    DryRunOption,
    ErrorOption,
    ManyGroupsArgument,
    OnlyIdOption,
    RateOption,
    SinceOption,
    YesOption,
    confirm,
    is_for_many,
    progress,
    refuse_alone,
    say_many,
)
from .render import print_either, print_json
from .steps import (
    AgainOption,
    Answers,
    AttemptOption,
    DoneOption,
    ResultOption,
    answers,
    attempts_of,
    question,
    show_steps,
)


@queue_command(app)
def resume(
    client: Sequencer,
    group: ManyGroupsArgument = None,
    id: OnlyIdOption = None,
    everything: AllOption = False,
    error: ErrorOption = None,
    since: SinceOption = None,
    rate: RateOption = None,
    dry_run: DryRunOption = False,
    outage: Annotated[bool, call_option("--outage", help="During an outage: attempt one message now.")] = False,
    done: DoneOption = None,
    result: ResultOption = None,
    again: AgainOption = None,
    attempt: AttemptOption = None,
    json: JsonOption = False,
) -> int:
    """Let a parked or waiting group go on now, or many at once.

    Its head gets fresh attempts. If the head has a `once` step of unknown outcome, --done STEP confirms that it took
    effect, --again STEP that it did not. --done also skips a step that must not run at all.

    --all, --error and --since read the groups first; one that fails again meanwhile is left alone. Exits with 1 if some
    were left alone. If interrupted, run it again.
    """
    said = answers(done, result, again)
    if outage:
        others = {"--all": everything, "--error": error, "--since": since, "--rate": rate, "--dry-run": dry_run}
        refuse_alone({**others, "--id": id}, "not for --outage, which is for the whole queue")
        _probe(client, group, json)
        return FINE
    if is_for_many(group, everything, error, since):
        refuse_alone({"--id": id, "--attempt": attempt}, "for one group")
        with progress("resuming") as told:
            many = client.resume_many(
                error=error,
                since=since,
                everything=everything,
                rate=rate,
                dry_run=dry_run,
                on_progress=told,
                **said,
            )
        return say_many(many, "resumed", client.queue, client.options.namespace, json)
    refuse_alone({"--rate": rate, "--dry-run": dry_run}, "for many groups")
    _resume_one(client, group or [], id, said, attempts_of(said, attempt), json)
    return FINE


def _resume_one(
    client: Sequencer, group: list[str], id: str | None, said: Answers, attempts: dict[str, int], as_json: bool
) -> None:
    is_resumed = client.resume(group, id=id, attempts=attempts, **said)
    found = client.explain(group)
    is_paused = found.reason in ("paused", "queue paused")
    if as_json:
        print_json({"group": group, "resumed": is_resumed, "paused": is_paused})
    elif is_resumed and is_paused:
        typer.echo(f"the head has fresh attempts, but {plain(found.text)}")
    else:
        typer.echo(f"group {named(group)} {'goes on' if is_resumed else 'was due already; nothing to do'}")


def _probe(client: Sequencer, group: list[str] | None, as_json: bool) -> None:
    if group:
        raise typer.BadParameter("is for the whole queue; leave the group out", param_hint="--outage")
    is_probing = client.probe_outage()
    said = "attempts its next message at once" if is_probing else "is not held back by an outage; nothing to do"
    print_either(as_json, {"queue": client.queue, "probing": is_probing}, f"queue {client.queue} {said}")


@queue_command(app)
def skip(
    client: Sequencer,
    group: ManyGroupsArgument = None,
    id: OnlyIdOption = None,
    dead_letter: Annotated[bool, call_option("--dead-letter", help="Make it a dead letter.")] = False,
    everything: AllOption = False,
    error: ErrorOption = None,
    since: SinceOption = None,
    discard: Annotated[bool, call_option("--discard", help="For many groups: delete the messages for good.")] = False,
    yes: YesOption = False,
    rate: RateOption = None,
    dry_run: DryRunOption = False,
    json: JsonOption = False,
) -> int:
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
        raise ConfigurationError("give either --dead-letter, which keeps the message, or --discard, which deletes it")
    if is_for_many(group, everything, error, since):
        refuse_alone({"--id": id}, "for one group")
        how = {"error": error, "since": since, "everything": everything, "rate": rate}
        return _skip_many(client, how, discard, yes, dry_run, json)
    refuse_alone({"--discard": discard, "--rate": rate, "--dry-run": dry_run}, "for many groups")
    _skip_one(client, group or [], id, dead_letter, yes, json)
    return FINE


def _skip_many(client: Sequencer, how: Any, discard: bool, yes: bool, dry_run: bool, json: bool) -> int:
    how_they_end = f"their heads {'discarded' if discard else 'made dead letters'}"
    if discard and not dry_run:
        count = 0 if yes else client.skip_many(**how, dry_run=True).chosen
        if not confirm(f"Discard the failed heads of {many(count, 'group')} of queue {client.queue} for good?", yes):
            return FINE
    with progress("skipping") as told:
        done = client.skip_many(**how, discard=discard, dry_run=dry_run, on_progress=told)
    status = say_many(done, "skipped", client.queue, client.options.namespace, json, how=how_they_end)
    if done.done and not (discard or json):
        chosen = ["--error", how["error"]] if how["error"] else ["--all"]
        back = command("dead redrive", client.queue, namespace=client.options.namespace, options=chosen)
        which = "of this error" if how["error"] else "of the queue, not only these,"
        typer.echo(f"to put all dead letters {which} back: {back}", err=True)
    return status


def _skip_one(client: Sequencer, group: list[str], id: str | None, dead_letter: bool, yes: bool, json: bool) -> None:
    skipped = client.skip(group, id=id, dead_letter=dead_letter, yes=yes)
    if isinstance(skipped, Gap):
        which = str(skipped.first) if skipped.first == skipped.last else f"{skipped.first} to {skipped.last}"
        print_either(json, skipped, f"skipped {which} in group {named(group)}, which goes on")
        return
    name, what = ("dead redrive", "dead-lettered") if dead_letter else ("unskip", "removed")
    back = command(
        name, client.queue, *skipped.group, namespace=client.options.namespace, options=id_option(skipped.id)
    )
    until = "" if dead_letter else "until the next skip, "
    if not json:
        is_paused = client.explain(group).reason in ("paused", "queue paused")
        goes_on = command("unpause", client.queue, *group, namespace=client.options.namespace)
        then = f"is paused (unpause: {goes_on})" if is_paused else "goes on"
        said = f"{what} {plain(skipped.id)} from group {named(group)}, which {then}"
        typer.echo(f"{said}; {until}put it back (behind what is handled meanwhile) with: {back}", err=True)
        if skipped.steps:
            show_steps(skipped.steps, err=True)
            if dead_letter and skipped.steps.questions:
                typer.echo(question(client.queue, client.options.namespace, skipped.steps), err=True)
    fields = as_json(skipped)
    fields["attempts"] = fields.pop("attempt") - 1  # the next one would have been that
    print_json({**fields, "steps": as_json(skipped.steps)} if json else fields)


@queue_command(app)
def unskip(
    client: Sequencer,
    group: GroupArgument,
    id: OnlyIdOption = None,
    json: JsonOption = False,
) -> None:
    """Put the last skipped message back into its place.

    It gets fresh attempts. It is kept until the next skip in its shard.
    """
    message = client.unskip(group, id=id)
    print_either(json, message, f"{plain(message.id)} is back in group {named(group)}")


@queue_command(app)
def pause(
    client: Sequencer,
    group: OptionalGroupArgument = None,
    json: JsonOption = False,
) -> None:
    """Pause a group, or without PART the whole queue.

    Takes effect at the next claim: running handlers finish, and appends go on. It lasts until `unpause`, even through
    restarts. A group may be paused before it has messages.
    """
    is_changed = client.pause(group or None)
    _say_paused(client.queue, group, is_changed, "paused" if is_changed else "paused already", json)


@queue_command(app)
def unpause(
    client: Sequencer,
    group: OptionalGroupArgument = None,
    everything: Annotated[bool, call_option("--all", help="Every individually paused group.")] = False,
    json: JsonOption = False,
) -> None:
    """Let a paused group, or without PART a paused queue, go on.

    Without --all, individually paused groups stay paused.
    """
    if everything and group:
        raise ConfigurationError("give either the parts of a group or --all")
    if everything:
        count = sum(client.unpause(one) for one in client.paused_groups())
        print_either(json, {"queue": client.queue, "unpaused": count}, f"unpaused {many(count, 'group')}")
        return
    is_changed = client.unpause(group or None)
    _say_paused(client.queue, group, is_changed, "no longer paused" if is_changed else "not paused", json)


def _say_paused(queue: str, group: list[str] | None, is_changed: bool, state: str, as_json: bool) -> None:
    name = f"group {named(group)}" if group else f"queue {queue}"
    value = {"queue": queue, "group": group or None, "changed": is_changed}
    print_either(as_json, value, f"{name} is {state}")
