"""`sequencer outbox`: make the tables of an outbox, relay it, and fix what is held."""

from __future__ import annotations

import inspect
from typing import Annotated, Any

import typer
from typer import Option

from ..client import Sequencer
from ..outbox import Outbox, Relay
from ..outbox.drivers import connector
from ..outbox.operate import Operated
from ..outbox.relay import run_until_signal
from ..outbox.sql import Dialect
from ..settings.option import declared
from ..settings.options import MAX_PARTS, OutboxOptions, QueueOptions
from ..texts.words import duration, named, quoted
from .app import (
    FunctionT,
    GroupArgument,
    IdOption,
    JsonOption,
    LimitOption,
    NamespaceOption,
    OptionalGroupArgument,
    QueueArgument,
    RedisOption,
    app,
    dressed,
)
from .output import Answer
from .table import number, table

outbox = typer.Typer(help="Outbox: append in database transactions.", no_args_is_help=True, rich_markup_mode="markdown")
app.add_typer(outbox, name="outbox")

HELP = {name: one.help for name, one in declared(OutboxOptions).items()}
DbOption = Annotated[str, Option("--db", envvar="SEQUENCER_DB", help=HELP["db"])]
PartsOption = Annotated[int, Option(min=1, max=MAX_PARTS, help=HELP["parts"])]
PrefixOption = Annotated[str, Option(help=HELP["prefix"])]


@outbox.command()
def ddl(dialect: Dialect, prefix: PrefixOption = "sequencer_") -> int:
    """Print the statements that make the tables, for a migration."""
    return Answer(None, ";\n".join([*Outbox("any", prefix=prefix).ddl(dialect), ""]).rstrip()).show(json=False)


@outbox.command()
def create(db: DbOption, prefix: PrefixOption = "sequencer_") -> int:
    """Make the tables that are not there."""
    Operated(connector(db), "any", prefix=prefix).create()
    return Answer(None, "tables ready").show(json=False)


@outbox.command()
def relay(
    queue: QueueArgument,
    db: DbOption,
    parts: PartsOption = 1,
    keep: Annotated[str, Option(help=HELP["keep"])] = "10m",
    prefix: PrefixOption = "sequencer_",
    shards: Annotated[int | None, Option(help=declared(QueueOptions)["shards"].help)] = None,
    redis: RedisOption = None,
    namespace: NamespaceOption = "sequencer",
) -> int:
    """Send the committed rows of an outbox to the queue until stopped.

    Run it on two hosts: one leads, the other takes over within 5 s.
    """
    connect = connector(db)
    with Sequencer(queue, redis, namespace=namespace, shards=shards) as client:
        client.connect()
        relays = [Relay(connect, client, part=part, prefix=prefix, keep=keep) for part in range(parts)]
        run_until_signal(relays)
    for one in relays:
        if one.error:
            raise one.error
    return Answer(None, f"sent {sum(one.sent for one in relays):,}").show(json=False)


def operates(function: FunctionT) -> FunctionT:
    """Register a command that operates an outbox: it returns its Answer. The command line takes QUEUE, --db, --parts,
    --prefix and --json.
    """

    def command(
        queue: QueueArgument,
        db: DbOption,
        parts: PartsOption = 1,
        prefix: PrefixOption = "sequencer_",
        json: JsonOption = False,
        **given: Any,
    ) -> int:
        answer: Answer = function(Operated(connector(db), queue, parts=parts, prefix=prefix), **given)
        return answer.show(json)

    _, *own = inspect.signature(function, eval_str=True).parameters.values()
    name, *shared, _ = inspect.signature(command, eval_str=True).parameters.values()
    outbox.command()(dressed(command, function, [name, *own, *shared]))
    return function


@operates
def status(of: Operated) -> Answer:
    """Rows that wait to be sent, are held, or are kept, counted to 100,000."""
    found = of.status()
    rows = [
        {
            "part": one.part,
            "unsent": number(one.unsent),
            "oldest": duration(one.oldest_s),
            "held": number(one.held),
            "kept": number(one.kept),
            "relay seen": "never" if one.seen_s is None else f"{duration(one.seen_s)} ago",
        }
        for one in found
    ]
    return Answer(found, table(rows, "kept, oldest, held"))


@operates
def held(of: Operated, limit: LimitOption = 100) -> Answer:
    """Rows that the queue refused; later rows of their groups wait."""
    found = of.held(limit)
    rows = [
        {"id": quoted(one.id), "group": named(one.group), "age": duration(one.age_s), "error": one.error}
        for one in found
    ]
    return Answer(found, table(rows, "age, error", cut="error") or "no rows held")


@operates
def release(of: Operated, group: OptionalGroupArgument = None) -> Answer:
    """Send held rows again: that of a group, or all."""
    count = of.release(group or None)
    return Answer({"released": count}, f"released {count:,}")


@operates
def skip(of: Operated, group: GroupArgument, id: IdOption) -> Answer:
    """Drop the held row of a group for good."""
    of.skip(group, id)
    return Answer({"skipped": id}, "skipped")


@operates
def renew(of: Operated) -> Answer:
    """Go on after the database was restored from a backup."""
    of.renew()
    return Answer({"renewed": of.queue}, "renewed")
