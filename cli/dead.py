"""`sequencer dead`: list, show, redrive and delete dead letters."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Annotated, Any

import typer
from typer import Option

from ..client import Sequencer
from ..errors import ConfigurationError, MessageNotFound
from ..texts.words import moment, named, quoted
from ..values.checks import check_rate
from ..values.views import DeadLetter, Redriven, as_json
from .app import AfterOption, IdOption, LimitOption, OptionalGroupArgument, app, cut, queue_command, text_of
from .many import (
    AllOption,
    ByErrorOption,
    DryRunOption,
    ErrorOption,
    OnlyIdOption,
    YesOption,
    confirm,
    error_table,
    progress,
)
from .message import message_text
from .output import FINE, GAVE_UP, Answer
from .steps import AgainOption, AttemptOption, DoneOption, ResultOption, answers, steps_text
from .table import error_words, number, table

dead = typer.Typer(help="Dead letters: list, show, redrive, purge.", no_args_is_help=True, rich_markup_mode="markdown")
app.add_typer(dead, name="dead")

EVERYTHING = 10**9
"""As a limit: more than there are."""


@queue_command(dead, "list")
def list_(
    client: Sequencer,
    group: OptionalGroupArgument = None,
    id: OnlyIdOption = None,
    error: ErrorOption = None,
    by_error: ByErrorOption = False,
    limit: LimitOption = 100,
    after: AfterOption = None,
) -> Answer:
    """Dead letters with their errors, the oldest death first."""
    found = client.dead(group or None, id=id, error=error, limit=EVERYTHING if by_error else limit, after=after)
    if by_error:
        errors = Counter(letter.error.type for letter in found)
        return Answer(dict(errors.most_common()), error_table(errors, "dead letters") or "no such dead letters")
    is_chosen = bool(group) or id is not None or error is not None
    return Answer(found, _table(found) or f"no {'such ' if is_chosen else ''}dead letters", cut(found, limit))


def _table(letters: list[DeadLetter]) -> str:
    """A narrow terminal shows id and group in any case."""
    rows = [
        {
            "id": quoted(letter.message.id),
            "group": named(letter.message.group),
            "score": number(letter.message.score),
            "attempts": letter.attempts,
            "died": moment(letter.died_at),
            "error": error_words(letter.error)[:100],
        }
        for letter in letters
    ]
    return table(rows, "score, attempts, died, error", cut="error")


@queue_command(dead)
def show(client: Sequencer, id: IdOption, group: OptionalGroupArgument = None) -> Answer:
    """Show the dead letters with this id in full.

    In one group or in all groups: the message, its error with traceback, and its steps.
    """
    found = client.dead(group or None, id=id, limit=EVERYTHING)
    if not found:
        raise _not_found(client, id)
    return Answer(found, "\n\n".join(_text(client, letter) for letter in found))


def _text(client: Sequencer, letter: DeadLetter) -> str:
    text = message_text(replace(letter, steps=None).info, died=moment(letter.died_at))
    return f"{text}\n{steps_text(client, letter.steps)}" if letter.steps else text


@queue_command(dead)
def redrive(
    client: Sequencer,
    group: OptionalGroupArgument = None,
    id: OnlyIdOption = None,
    error: ErrorOption = None,
    everything: AllOption = False,
    rate: Annotated[float, Option(help="Maximum number of messages per second.")] = 1000.0,
    dry_run: DryRunOption = False,
    done: DoneOption = None,
    result: ResultOption = None,
    again: AgainOption = None,
    attempt: AttemptOption = None,
) -> Answer:
    """Put dead letters back, each into its own place.

    They keep group, id, score and stamp, and get fresh attempts. In a parked group they are handled in their place once
    `resume` lets the group go on. Steps that are done stay done. A dead letter that waits for an answer is left alone,
    unless --done or --again gives the answer. Exits with 1 if there are dead letters but none matches, or none was put
    back.
    """
    chosen = _chosen(group, id, error, everything)
    check_rate(rate)
    if dry_run:
        return _would_be("redriven", client, chosen)
    how = answers(done, result, again, attempt)
    with progress("redriving") as report:
        redriven = client.redrive(**chosen, everything=everything, rate=rate, on_progress=report, **how)
    value, text = {**as_json(redriven), "dry_run": False}, f"redriven {redriven.redriven:,}"
    if not redriven.redriven and not redriven.stayed:
        return _unfit(client, value, text)
    return Answer(value, text, *_left(client, redriven), status=FINE if redriven.redriven else GAVE_UP)


def _left(client: Sequencer, done: Redriven) -> list[str]:
    """What became of those that were not put back, and what is to be done where they were."""
    counts = {name: getattr(done, name) for name in ("pending", "handled", "changed", "asked")}
    left = [text_of(client, f"letters_{name}", count=count) for name, count in counts.items() if count]
    return left + [text_of(client, "still_parked", group=group) for group in done.parked]


@queue_command(dead)
def purge(
    client: Sequencer,
    group: OptionalGroupArgument = None,
    id: OnlyIdOption = None,
    error: ErrorOption = None,
    everything: AllOption = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> Answer:
    """Delete dead letters for good.

    Asks first, unless --yes is given. Exits with 1 if there are dead letters but none matches.
    """
    chosen = _chosen(group, id, error, everything)
    if dry_run:
        return _would_be("purged", client, chosen)
    if not yes:
        confirm(client, "purge", count=_count(client, chosen))
    purged = client.purge(**chosen, everything=everything)
    value, text = {"purged": purged, "dry_run": False}, f"purged {purged:,}"
    return Answer(value, text) if purged else _unfit(client, value, text)


def _chosen(group: list[str] | None, id: str | None, error: str | None, everything: bool) -> dict[str, Any]:
    if everything == (bool(group) or id is not None or error is not None):
        raise ConfigurationError("dead_letters_unchosen")
    return {"group": group or None, "id": id, "error": error}


def _count(client: Sequencer, chosen: dict[str, Any]) -> int:
    count = client.count_dead(**chosen)
    if chosen["id"] is not None and not count:
        raise _not_found(client, chosen["id"])
    return count


def _not_found(client: Sequencer, id: str) -> MessageNotFound:
    return MessageNotFound("dead_letter_not_found", id=id, queue=client.queue)


def _would_be(what: str, client: Sequencer, chosen: dict[str, Any]) -> Answer:
    count = _count(client, chosen)
    value, text = {"count": count, "dry_run": True}, f"{count:,} would be {what}"
    return Answer(value, text) if count else _unfit(client, value, text)


def _unfit(client: Sequencer, value: Any, text: str) -> Answer:
    """Nothing matches: status 1 if there are dead letters."""
    count = client.count_dead()
    if not count:
        return Answer(value, text)
    return Answer(value, text, text_of(client, "letters_unfit", count=count), status=GAVE_UP)
