"""`sequencer dead`: list, show, redrive and delete dead letters."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

import orjson
import typer

from ..client import Sequencer
from ..errors import ConfigurationError, MessageNotFound
from ..texts.commands import command
from ..texts.words import many, moment, named, plain
from ..values.checks import check_rate
from ..values.views import DeadLetter, Redriven, as_json
from .app import (
    FINE,
    GAVE_UP,
    IdOption,
    JsonOption,
    LimitOption,
    OptionalGroupArgument,
    app,
    call_option,
    queue_command,
)
from .many import ByErrorOption, DryRunOption, ErrorOption, OnlyIdOption, YesOption, confirm, say_errors
from .render import console, fields_table, group_words, id_word, letter_table, number, print_either, print_json
from .steps import AgainOption, AttemptOption, DoneOption, ResultOption, answers, attempts_of, question, show_steps

dead = typer.Typer(
    help="Dead letters: list, show, redrive, purge.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)
app.add_typer(dead, name="dead")

EVERYTHING = 10**9
"""As a limit: more than there are."""
AllOption = Annotated[bool, call_option("--all", help="All dead letters of the queue.")]


@queue_command(dead, "list")
def list_(
    client: Sequencer,
    group: OptionalGroupArgument = None,
    id: OnlyIdOption = None,
    error: ErrorOption = None,
    by_error: ByErrorOption = False,
    limit: LimitOption = 100,
    json: JsonOption = False,
) -> None:
    """Dead letters with their errors, the oldest death first."""
    if by_error:
        say_errors(_errors(client, group, id, error), "dead letters", "no such dead letters", json)
        return
    found = client.dead(group or None, id=id, error=error, limit=limit)
    if json:
        print_json(found)
    else:
        is_chosen = bool(group) or id is not None or error is not None
        console().print(letter_table(found) if found else f"no {'such ' if is_chosen else ''}dead letters")


@queue_command(dead)
def show(client: Sequencer, id: IdOption, group: OptionalGroupArgument = None, json: JsonOption = False) -> None:
    """Show the dead letters with this id in full.

    In one group or in all groups: the message, its error with traceback, and its steps.
    """
    found = client.dead(group or None, id=id, limit=EVERYTHING)
    if not found:
        raise _not_found(client.queue, id)
    if json:
        print_json(found)
        return
    for position, letter in enumerate(found):
        typer.echo("\n" if position else "", nl=False)
        _show(letter)
        if letter.steps:
            show_steps(letter.steps)
            if letter.steps.questions:
                typer.echo(question(client.queue, client.options.namespace, letter.steps))


def _show(letter: DeadLetter) -> None:
    message, error = letter.message, letter.error
    fields = {
        "id": id_word(message.id),
        "group": group_words(message.group),
        "score": number(message.score),
        "stamp": str(message.stamp),
        "appended": moment(message.appended_at),
        "died": moment(letter.died_at),
        "attempts": str(letter.attempts),
        "error": f"{error.type}: {error.message}",
        "owner": error.owner or "-",
        "headers": orjson.dumps(message.headers).decode(),
        "body": orjson.dumps(message.body).decode(),
    }
    console().print(fields_table(fields), soft_wrap=True)
    if error.traceback:
        typer.echo("\n".join(plain(line) for line in error.traceback.splitlines()))


@queue_command(dead)
def redrive(
    client: Sequencer,
    group: OptionalGroupArgument = None,
    id: OnlyIdOption = None,
    error: ErrorOption = None,
    everything: AllOption = False,
    rate: Annotated[float, call_option("--rate", help="Maximum number of messages per second.")] = 1000.0,
    dry_run: DryRunOption = False,
    done: DoneOption = None,
    result: ResultOption = None,
    again: AgainOption = None,
    attempt: AttemptOption = None,
    json: JsonOption = False,
) -> int:
    """Put dead letters back, each into its own place.

    They keep group, id, score and stamp, and get fresh attempts. In a parked group they are handled in their place once
    `resume` lets the group go on. Steps that are done stay done. A dead letter that waits for an answer is left alone,
    unless --done or --again gives the answer. Exits with 1 if there are dead letters but none matches, or none was put
    back.
    """
    _check_choice(group, id, error, everything)
    check_rate(rate)
    if dry_run:
        return _say_count(client, _count(client, group, id, error), "redriven", json)
    said = answers(done, result, again)
    redriven = client.redrive(
        group or None, id=id, error=error, everything=everything, rate=rate, attempts=attempts_of(said, attempt), **said
    )
    is_unfit = not redriven.redriven and not redriven.stayed
    if json:
        print_json({**as_json(redriven), "dry_run": False})
    elif not is_unfit:
        _say_redriven(client.queue, client.options.namespace, redriven)
    if is_unfit:
        return _status_of_unfit(client, "redriven", json)
    return FINE if redriven.redriven else GAVE_UP


def _say_redriven(queue: str, namespace: str, done: Redriven) -> None:
    typer.echo(f"redriven {done.redriven:,}")
    why = {
        "a message with the same id is pending again; list them with --json, delete them with `dead purge`": (
            done.pending
        ),
        "a message with the same id was handled within dedup_window; append it with --replace, or delete it with "
        "`dead purge`": done.handled,
        "they died again meanwhile; run this again": done.changed,
        "a step waits for an answer; see `steps`, and add --done STEP or --again STEP": done.asked,
    }
    for said, count in why.items():
        if count:
            typer.echo(f"left alone {many(count, 'dead letter')}: {said}")
    for group in done.parked:
        resume = command("resume", queue, *group, namespace=namespace)
        typer.echo(f"group {named(group)} is parked; resume: {resume}")


@queue_command(dead)
def purge(
    client: Sequencer,
    group: OptionalGroupArgument = None,
    id: OnlyIdOption = None,
    error: ErrorOption = None,
    everything: AllOption = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    json: JsonOption = False,
) -> int:
    """Delete dead letters for good.

    Asks first, unless --yes is given. Exits with 1 if there are dead letters but none matches.
    """
    _check_choice(group, id, error, everything)
    if dry_run or not yes:
        count = _count(client, group, id, error)
        if dry_run:
            return _say_count(client, count, "purged", json)
        if not confirm(f"Delete {many(count, 'dead letter')} of queue {client.queue} for good?", is_sure=False):
            return FINE
    purged = client.purge(group or None, id=id, error=error, everything=everything)
    if json or purged:
        print_either(json, {"purged": purged, "dry_run": False}, f"purged {purged:,}")
    return FINE if purged else _status_of_unfit(client, "purged", json)


def _check_choice(group: list[str] | None, id: str | None, error: str | None, everything: bool) -> None:
    is_chosen = bool(group) or id is not None or error is not None
    if everything and is_chosen:
        raise ConfigurationError("give either --all, or a group, --id or --error")
    if not everything and not is_chosen:
        raise ConfigurationError("which dead letters? Give the parts of a group, --id, --error, or --all")


def _count(client: Sequencer, group: list[str] | None, id: str | None, error: str | None) -> int:
    count = client.count_dead(group or None, id=id, error=error)
    if id is not None and not count:
        raise _not_found(client.queue, id)
    return count


def _errors(
    client: Sequencer, group: list[str] | None = None, id: str | None = None, error: str | None = None
) -> Counter[str]:
    """How many died of each error."""
    return Counter(letter.error.type for letter in client.dead(group or None, id=id, error=error, limit=EVERYTHING))


def _not_found(queue: str, id: str) -> MessageNotFound:
    return MessageNotFound("dead_letter_not_found", id=id, queue=queue)


def _say_count(client: Sequencer, count: int, what: str, as_json: bool) -> int:
    if as_json or count:
        print_either(as_json, {"count": count, "dry_run": True}, f"{count:,} would be {what}")
    return FINE if count else _status_of_unfit(client, what, as_json, is_dry_run=True)


def _status_of_unfit(client: Sequencer, what: str, as_json: bool, *, is_dry_run: bool = False) -> int:
    """Nothing matches: 1 if there are dead letters."""
    count = client.count_dead()
    if not as_json:
        typer.echo(f"0 would be {what}" if is_dry_run else f"{what} 0")
    if count and not as_json:
        line = command("dead list", client.queue, namespace=client.options.namespace, options=["--by-error"])
        typer.echo(f"there {'is' if count == 1 else 'are'} {many(count, 'dead letter')}; inspect: {line}")
    return GAVE_UP if count else FINE
