"""`sequencer steps`: the outcome of each step of a message, and how unresolved steps are answered for."""

from __future__ import annotations

import getpass
import socket
from collections.abc import Sequence
from typing import Annotated, Any, TypedDict

import orjson
import typer

from ..client import Sequencer
from ..errors import MessageNotFound
from ..texts.commands import answer_options, command, id_option
from ..texts.words import moment, named, plain
from ..values.history import MessageSteps, StepInfo
from .app import GroupArgument, JsonOption, app, call_option, queue_command
from .render import cells, console, print_json, table
from .table import Column, Table

DoneOption = Annotated[
    list[str] | None,
    call_option(
        "--done",
        metavar="STEP",
        help="This step took effect, so it does not run again. May be repeated.",
        show_default=False,
    ),
]
ResultOption = Annotated[
    list[str] | None,
    call_option(
        "--result",
        metavar="JSON",
        help="Result of the step named by --done; null if not given. Once for each --done, in their order.",
        show_default=False,
    ),
]
AgainOption = Annotated[
    list[str] | None,
    call_option(
        "--again",
        metavar="STEP",
        help="This step did not take effect, so it runs again, with a new key. May be repeated.",
        show_default=False,
    ),
]


AttemptOption = Annotated[
    list[int] | None,
    call_option(
        "--attempt",
        help="The attempt that this answer is for; refused once the step has run again. One for each --done, then one "
        "for each --again.",
        show_default=False,
    ),
]


class Answers(TypedDict):
    """Answers for steps, as `Sequencer.resume_many` takes them."""

    done: dict[str, Any]
    again: list[str]
    by: str


def answers(done: Sequence[str] | None, results: Sequence[str] | None, again: Sequence[str] | None) -> Answers:
    """From the options. Raises BadParameter."""
    names, texts = done or [], results or []
    if len(texts) > len(names):
        raise typer.BadParameter("is the result of a step named by --done; give that too", param_hint="--result")
    if texts and len(texts) < len(names):
        said = f"steps done: {len(names)}, results: {len(texts)}; give one result for each step, null for none"
        raise typer.BadParameter(said, param_hint="--result")
    named = {name: _result(texts, at) for at, name in enumerate(names)}
    return Answers(done=named, again=list(again or []), by=_user())


def attempts_of(said: Answers, attempts: Sequence[int] | None) -> dict[str, int]:
    """The attempt that each answer is for; empty without the option. Raises BadParameter."""
    names = [*said["done"], *said["again"]]
    if attempts and len(attempts) != len(names):
        text = f"steps answered: {len(names)}, attempts: {len(attempts)}; give one attempt for each step"
        raise typer.BadParameter(text, param_hint="--attempt")
    return dict(zip(names, attempts or (), strict=False))


def _user() -> str:
    """Who runs this command: the ledger keeps the name."""
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"[:100]
    except (KeyError, OSError):  # a user without a name
        return socket.gethostname()[:100] or "somebody"


def _result(texts: Sequence[str], at: int) -> Any:
    if not texts:
        return None
    try:
        return orjson.loads(texts[at])
    except orjson.JSONDecodeError as error:
        said = f"{plain(texts[at])} is not JSON ({error}); text needs quotes: '\"p9\"'"
        raise typer.BadParameter(said, param_hint="--result") from error


@queue_command(app)
def steps(
    client: Sequencer,
    group: GroupArgument,
    id: Annotated[
        str | None,
        call_option("--id", help="Id of the message. Default: the failed message, else the head.", show_default=False),
    ] = None,
    json: JsonOption = False,
) -> None:
    """The outcome of each step of a message.

    Shows outcome, attempts, when, how long, error or result, and key.
    """
    found = client.steps(group, id)
    if found is None:
        which = "the group has no message" if id is None else f"no message {id!r} is pending or dead"
        raise MessageNotFound(f"{which} in group {named(group)} of queue {client.queue!r}")
    if json:
        print_json(found)
    else:
        show_steps(found)
        if found.questions:
            typer.echo(question(client.queue, client.options.namespace, found))


def show_steps(found: MessageSteps, *, err: bool = False) -> None:
    """On standard output, or on standard error."""
    name = f"message {plain(found.id)} of group {named(found.group)}"
    if found.unreadable:
        typer.echo(f"{name}: {plain(found.unreadable)}", err=err)
        return
    if not found.steps:
        typer.echo(f"{name}: no step has started", err=err)
        return
    console(err=err).print(steps_table(found.steps))
    for past in found.failures:  # without their attempts: those count again after a resume, those of `--attempt` do not
        typer.echo(f"{moment(past.at)}  {plain(past.error)}", err=err)


def question(queue: str, namespace: str, found: MessageSteps) -> str:
    """The question about unresolved steps, and the commands for both answers."""
    name, words = "dead redrive" if found.is_dead else "resume", id_option(found.id)
    asked = {step.name: step.attempts for step in found.steps if step.name in found.questions}
    done, again = (
        command(name, queue, *found.group, namespace=namespace, options=[*words, *answer_options(answer, asked)])
        for answer in ("--done", "--again")
    )
    return (
        f"did {', '.join(map(plain, found.questions))} take effect? If it did: {done}\n{' ' * 8}if it did not: {again}"
    )


def steps_table(steps: Sequence[StepInfo]) -> Table:
    """A narrow terminal shows step and outcome in any case."""
    rows = table(
        "step", "outcome", Column("attempts", 3), Column("when", 2), Column("took", 4), Column("result", 1), "key"
    )
    for step in steps:
        when = moment(step.at) if step.at else "-"
        took = f"{1000 * step.took_s:.0f} ms" if step.took_s else "-"
        said = step.error or ("-" if step.result is None else orjson.dumps(step.result).decode())
        rows.add_row(*cells(step.name, outcome(step), str(step.attempts), when, took, said, step.key))
    return rows


def outcome(step: StepInfo) -> str:
    """Its state, and what kind of step it is where that says what may become of it."""
    said = f"done by {step.who}" if step.who else step.state
    marks = [mark for mark, is_so in (("once", step.once), ("optional", step.optional)) if is_so]
    return f"{said} ({', '.join(marks)})" if marks else said
