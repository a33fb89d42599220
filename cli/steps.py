"""`sequencer steps`: the outcome of each step of a message, and how unresolved steps are answered for."""

from __future__ import annotations

import getpass
import socket
from collections.abc import Sequence
from typing import Annotated, Any

import orjson
from typer import Option

from ..client import Sequencer
from ..errors import ConfigurationError, MessageNotFound
from ..texts.words import moment, named, plain
from ..values.history import MessageSteps, StepInfo
from .app import GroupArgument, app, queue_command, text_of
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
    """Answers for steps, as `Sequencer.resume` takes them. Raises ConfigurationError."""
    done, again = done or [], again or []
    if results and len(results) != len(done):
        raise ConfigurationError("results_miscounted", results=len(results), steps=len(done))
    if attempts and len(attempts) != len(done) + len(again):
        raise ConfigurationError("attempts_miscounted", attempts=len(attempts), steps=len(done) + len(again))
    return {
        "done": dict(zip(done, map(_result, results or ["null"] * len(done)), strict=True)),
        "again": again,
        "attempts": dict(zip([*done, *again], attempts or (), strict=False)),
        "by": _user(),
    }


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
        raise ConfigurationError("result_not_json", value=text, error=str(error)) from error


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
        raise MessageNotFound("steps_missing", id=id or "", group=tuple(group), queue=client.queue)
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
        about = {"group": found.group, "id": found.id, "is_dead": found.is_dead}
        about |= {"steps": [*asked], "attempts": [*asked.values()]}
        lines += [text_of(client, code, **about) for code in ("step_question", "step_question_again")]
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
