"""`sequencer steps`: the outcome of each step of a message, and how unresolved steps are answered for."""

from __future__ import annotations

import getpass
import socket
from collections.abc import Sequence
from typing import Annotated, Any

import orjson
import typer
from typer import Option

from ..client import Sequencer
from ..errors import MessageNotFound
from ..texts.commands import answer_options, id_option
from ..texts.words import moment, named, plain
from ..values.history import MessageSteps, StepInfo
from .app import GroupArgument, app, command_of, queue_command
from .output import Answer
from .table import table

DoneOption = Annotated[
    list[str] | None, Option(metavar="STEP", help="This step took effect, so it does not run again. May be repeated.")
]
ResultOption = Annotated[
    list[str] | None,
    Option(
        metavar="JSON",
        help="Result of the step named by --done; null if not given. Once for each --done, in their order.",
    ),
]
AgainOption = Annotated[
    list[str] | None,
    Option(metavar="STEP", help="This step did not take effect, so it runs again, with a new key. May be repeated."),
]
AttemptOption = Annotated[
    list[int] | None,
    Option(
        help="The attempt that this answer is for; refused once the step has run again. One for each --done, then one "
        "for each --again."
    ),
]


def answers(
    done: list[str] | None, results: list[str] | None, again: list[str] | None, attempts: list[int] | None
) -> dict[str, Any]:
    """Answers for steps, as `Sequencer.resume` takes them. Raises BadParameter."""
    done, again = done or [], again or []
    _check_count(results, done, "--result", "give one result for each --done, null for none")
    _check_count(attempts, [*done, *again], "--attempt", "give one for each --done and --again")
    return {
        "done": dict(zip(done, map(_result, results or ["null"] * len(done)), strict=True)),
        "again": again,
        "attempts": dict(zip([*done, *again], attempts or (), strict=False)),
        "by": _user(),
    }


def _check_count(given: Sequence[object] | None, names: list[str], option: str, wanted: str) -> None:
    if given and len(given) != len(names):
        raise typer.BadParameter(f"{len(given)} given, steps: {len(names)}; {wanted}", param_hint=option)


def _user() -> str:
    """Who runs this command: the ledger keeps the name."""
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"[:100]
    except (KeyError, OSError):  # a user without a name
        return socket.gethostname()[:100] or "somebody"


def _result(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        said = f"{plain(text)} is not JSON ({error}); text needs quotes: '\"p9\"'"
        raise typer.BadParameter(said, param_hint="--result") from error


@queue_command(app)
def steps(
    client: Sequencer,
    group: GroupArgument,
    id: Annotated[str | None, Option(help="Id of the message. Default: the failed message, else the head.")] = None,
) -> Answer:
    """The outcome of each step of a message.

    Shows outcome, attempts, when, how long, error or result, and key.
    """
    found = client.steps(group, id)
    if found is None:
        which = "no message" if id is None else f"no pending or dead message {id!r}"
        raise MessageNotFound(f"{which} in group {named(group)} of queue {client.queue!r}")
    return Answer(found, steps_text(client, found))


def steps_text(client: Sequencer, found: MessageSteps, *, asks: bool = True) -> str:
    """A table, the failures, and where it `asks`, what has to be found out and the two commands that say it."""
    name = f"message {plain(found.id)} of group {named(found.group)}"
    if found.unreadable or not found.steps:
        return f"{name}: {plain(found.unreadable) or 'no step has started'}"
    # Without their attempts: those count again after a resume, those of `--attempt` do not.
    lines = [_table(found.steps), *(f"{moment(past.at)}  {plain(past.error)}" for past in found.failures)]
    if asks and found.questions:
        asked = {step.name: step.attempts for step in found.steps if step.name in found.questions}
        done, again = (
            command_of(
                client,
                "dead redrive" if found.is_dead else "resume",
                *found.group,
                options=[*id_option(found.id), *answer_options(answer, asked)],
            )
            for answer in ("--done", "--again")
        )
        lines.append(f"did {', '.join(map(plain, found.questions))} take effect? If it did: {done}")
        lines.append(f"{' ' * 8}if it did not: {again}")
    return "\n".join(lines)


def _table(steps: Sequence[StepInfo]) -> str:
    """A narrow terminal shows step and outcome in any case."""
    rows = [
        {
            "step": step.name,
            "outcome": _outcome(step),
            "attempts": step.attempts,
            "when": moment(step.at) if step.at else None,
            "took": step.took_s or None,
            "result": step.error or (None if step.result is None else orjson.dumps(step.result).decode()),
            "key": step.key,
        }
        for step in steps
    ]
    return table(rows, "took, attempts, when, result")


def _outcome(step: StepInfo) -> str:
    """Its state, and what kind of step it is where that says what may become of it."""
    said = f"done by {step.who}" if step.who else step.state
    marks = [mark for mark, is_so in (("once", step.once), ("optional", step.optional)) if is_so]
    return f"{said} ({', '.join(marks)})" if marks else said
