"""Commands for one message, by its group and id: get, rerun, cancel and reschedule."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import Annotated

import orjson
import typer

from ..client import Sequencer
from ..errors import MessageNotFound
from ..texts.words import moment, named, plain
from ..values.history import MessageInfo
from .app import DURATION, GroupArgument, IdOption, JsonOption, app, call_option, queue_command
from .render import (
    console,
    ended_fields,
    fields_table,
    group_words,
    id_word,
    log_fields,
    number,
    print_either,
    print_json,
    seconds,
)


@queue_command(app)
def get(client: Sequencer, group: GroupArgument, id: IdOption, json: JsonOption = False) -> None:
    """One message: its state, attempts, error and content.

    States: due; behind (due, but not the head of its group); leased; delayed; waiting (its group backs off, or waits
    for a number or a window); paused; parked; dead; handled (its id is remembered for the dedup window, without
    content: handled, dropped, skipped or purged). If the queue keeps a history, the outcome: finished, failed
    (finished, but optional steps failed), skipped, dropped, cancelled, replaced, purged, swept; with --history-bodies
    of `configure` also its content.
    """
    found = client.get(group, id)
    if found is None:
        raise MessageNotFound("message_unknown", id=id, group=tuple(group), queue=client.queue)
    if json:
        print_json(found)
    else:
        show_message(found)


def show_message(info: MessageInfo) -> None:
    """As text, one field per line."""
    fields = {"id": id_word(info.id), "group": group_words(info.group), "state": info.state, "status": info.status}
    if info.state == "handled":  # or not: nobody knows with which status it ended
        del fields["status"]
        fields |= {"state": "handled, dropped, skipped or purged", "note": info.note}
    elif info.finished_at is not None:
        fields |= ended_fields(info)
    elif info.began_at is not None:
        fields |= {"began": moment(info.began_at), "consumer": info.consumer}
    else:
        fields |= {"due in": seconds(info.due_in_s)}
    if message := info.message:
        marks = [name for name in ("late", "redriven") if getattr(message, name)]
        if info.finished_at is None:
            fields |= {"attempts": str(info.attempts), "appended": moment(message.appended_at)}
        fields |= {"score": number(message.score), "body": orjson.dumps(message.body).decode()}
        fields |= {"headers": orjson.dumps(message.headers).decode()} if message.headers else {}
        fields |= {"marks": ", ".join(marks)} if marks else {}
    fields |= {name: said for name, said in {"rerun of": info.rerun_of, "rerun as": info.rerun_as}.items() if said}
    if info.steps and info.steps.steps:
        fields |= {"steps": info.steps.said}
        fields |= {f"result of {name}": orjson.dumps(result).decode() for name, result in info.steps.results.items()}
    if info.error:
        fields |= {"error": f"{info.error.type}: {info.error.message}"}
        fields |= log_fields(info.error.log)
    console().print(fields_table(fields))
    if info.error and info.error.traceback:
        typer.echo("\n".join(plain(line) for line in info.error.traceback.splitlines()))


@queue_command(app)
def rerun(
    client: Sequencer,
    group: GroupArgument,
    id: IdOption,
    keep_steps: Annotated[
        bool, call_option("--keep-steps", help="Keep the steps that are done; otherwise all steps run again.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Append an ended message again, under a new id.

    It keeps its body and score; e3 becomes e3~2. The queue must keep contents: `configure QUEUE --history-window 3d
    --history-bodies`. The score decides its place. All steps run again, including `once` steps that took effect.
    Repeating the command adds nothing; for another run, rerun the new id.
    """
    done = client.rerun(group, id, keep_steps=keep_steps)
    value = {"group": group, "id": id, "rerun_as": done.id, "duplicate": done.duplicate}
    said, new = f"{plain(id)} of group {named(group)}", plain(done.id)
    text = (
        f"{said} was already rerun as {new}; for another run, rerun that"
        if done.duplicate
        else f"rerun {said} as {new}"
    )
    print_either(json, value, text)


@queue_command(app)
def cancel(client: Sequencer, group: GroupArgument, id: IdOption, json: JsonOption = False) -> None:
    """Remove a pending message, so that it is not handled.

    Refused while a consumer has it in progress. Once that consumer's lease has expired, the message is removed, even
    though its handler may have started: see `skip`.
    """
    client.cancel(group, id)
    value = {"group": group, "id": id, "cancelled": True}
    print_either(json, value, f"cancelled {plain(id)} of group {named(group)}")


@queue_command(app)
def reschedule(
    client: Sequencer,
    group: GroupArgument,
    id: IdOption,
    delay: Annotated[float | None, call_option("--delay", help="How long from now: 90, 10m, 2h.", **DURATION)] = None,
    at: Annotated[
        str | None,
        call_option(
            "--at",
            metavar="TIME",
            help="Seconds since 1970, or ISO 8601 with a time zone: 2030-01-31T09:00:00+01:00",
        ),
    ] = None,
    score: Annotated[
        str | None,
        call_option(
            "--score",
            metavar="NUMBER",
            help="New score. Default: the new time if the score was the old time, else unchanged.",
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Change the time or score of a pending message.

    It gets fresh attempts. Refused while a consumer has it in progress.
    """
    time = None if at is None else _time(at)
    new_score = None if score is None else _score(score)
    client.reschedule(group, id, delay=delay, at=time, score=new_score)
    found = client.get(group, id)
    due_in_s = found.due_in_s if found else None
    value = {"group": group, "id": id, "due_in_s": due_in_s}
    print_either(json, value, f"rescheduled {plain(id)} of group {named(group)}, due in {seconds(due_in_s)}")


def _number(text: str) -> int | float:
    """An int where it is one: above 2**53 a float would be another number. Raises ValueError."""
    try:
        return int(text)
    except ValueError:
        return float(text)


def _score(text: str) -> int | float:
    try:
        return _number(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a number", param_hint="--score") from None


def _time(text: str) -> int | float | datetime:
    for kind in (_number, datetime.fromisoformat):
        with suppress(ValueError):
            return kind(text)
    wanted = "neither seconds since 1970 nor ISO 8601 with a time zone, like 2030-01-31T09:00:00+01:00"
    raise typer.BadParameter(f"{text!r} is {wanted}", param_hint="--at")
