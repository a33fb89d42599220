"""Commands for messages that ended: history, find."""

from __future__ import annotations

from itertools import islice
from typing import Annotated

import orjson
from typer import Option

from ..client import Sequencer
from ..errors import MessageNotFound
from ..texts.words import named, quoted
from ..values.history import MessageInfo, Outcome
from .app import DURATION, IdOption, LimitOption, OptionalGroupArgument, app, queue_command, text_of
from .message import message_text, took
from .output import Answer
from .table import table, when


@queue_command(app)
def history(
    client: Sequencer,
    group: OptionalGroupArgument = None,
    since: Annotated[
        float | None, Option(help="Only what ended within this time: 90s, 10m, 2h, 1d.", **DURATION)
    ] = None,
    until: Annotated[
        float | None, Option(help="Only what ended before this time ago: 90s, 10m, 2h, 1d.", **DURATION)
    ] = None,
    outcome: Annotated[Outcome | None, Option(help="Only messages with this outcome.")] = None,
    kind: Annotated[str | None, Option(help="Only messages of this kind.")] = None,
    limit: LimitOption = 100,
) -> Answer:
    """Ended messages of one group or of all, newest first.

    Shows the outcome, when, after how many attempts, and in which consumer. Empty unless the queue keeps a history:
    `configure QUEUE --history-window 3d`. Outcomes: finished; failed (finished, but optional steps failed); skipped;
    dropped; cancelled; replaced; purged or swept (a dead letter deleted by an operator or by `sweep`). Reading takes
    about a second per million messages.
    """
    found = client.history(group or None, since=since, until=until, outcome=outcome, kind=kind)
    shown = list(islice(found, limit))
    more = f"showing the newest {limit:,}; for more use --limit, or narrow down with --since and --until"
    if not shown and not client.policy.history_window:
        return Answer(shown, text_of(client, "no_history"))
    return Answer(shown, _table(shown) or "no such messages in the history", more if found else "")


def _table(infos: list[MessageInfo]) -> str:
    """A narrow terminal shows id, group and state in any case."""
    rows = [
        {
            "id": quoted(info.id),
            "group": named(info.group),
            "state": info.state,
            "attempts": info.attempts,
            "took": took(info),
            "ended": when(info.finished_at),
            "consumer": info.consumer,
            "kind": info.kind,
            "note": info.note,
            **({"body": orjson.dumps(info.message.body).decode()[:200]} if info.message else {}),
        }
        for info in infos
    ]
    return table(rows, "body, consumer, attempts, kind, took, note, ended", cut="note")


@queue_command(app)
def find(client: Sequencer, id: IdOption) -> Answer:
    """Find a message by its id alone, in any group.

    Searches pending messages, dead letters and the history, about a second per million; `get` with the group is
    immediate.
    """
    found = client.find(id)
    if not found:
        raise MessageNotFound("id_unknown", id=id, queue=client.queue)
    return Answer(found, "\n\n".join(map(message_text, found)))
