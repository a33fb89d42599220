"""The Typer application, the options that commands share, and how a command of one queue is registered."""

from __future__ import annotations

import functools
import inspect
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Annotated, Any, Literal, TypeVar

import typer
from typer import Argument, Option

from ..client import Sequencer, list_queues
from ..errors import ConfigurationError, SequencerError
from ..processes.logs import Format, LogOptions, configure
from ..server import EmbeddedServer
from ..texts.answers import answer_text
from ..texts.commands import name_server
from ..values.checks import seconds_of
from ..values.version import VERSION
from .output import Answer
from .queues import require_queue

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

app = typer.Typer(
    name="sequencer",
    help="Ordered, per-group message processing on the Redis or Valkey you already run.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    epilog="Exit codes: 0 success; 1 gave up, or only part was done; 2 wrong use, handler not found, or append stopped "
    "at a bad line; 3 server not reachable, not usable or full; 4 finished with parked groups; 5 doctor or check "
    "found a problem; 6 `watch --once` found an open incident.",
)

GIVEN = "_SEQUENCER_REDIS_IS_OF_THE_CALL"
"""Set by `cli/start` beside SEQUENCER_REDIS, where the call named a server with a password."""

FILLED = ("SEQUENCER_HOME", "SEQUENCER_NAMESPACE", "SEQUENCER_APP", "SEQUENCER_PROCESSES", "SEQUENCER_LEASE")
"""Variables that are wrong where they are empty: a name was meant that is not there. SEQUENCER_REDIS says so itself."""


def _seconds(text: str | float) -> float:
    """Raises BadParameter, which names the option."""
    try:
        return seconds_of("duration", text)
    except ConfigurationError as error:
        raise typer.BadParameter(str(error)) from None


DURATION: dict[str, Any] = {"parser": _seconds, "metavar": "DURATION"}
"""For an option that takes a duration: a number of seconds, or text like 5m."""


def _server_named(ctx: typer.Context, parameter: typer.CallbackParam, url: str | None) -> str | None:
    is_named = bool(os.environ.pop(GIVEN, "")) or is_of_call(ctx, str(parameter.name))
    name_server(url if url and is_named else "")
    return url


def _complete_queue(ctx: typer.Context, incomplete: str) -> list[str]:
    """The names of queues, for the shell. A key pressed by the way starts no server."""
    redis, namespace = ctx.params.get("redis"), ctx.params.get("namespace")
    with suppress(SequencerError):
        if redis or EmbeddedServer().status().is_running:
            return [name for name in list_queues(redis, namespace or "sequencer") if name.startswith(incomplete)]
    return []


# An option has a variable where it describes a deployment: server, namespace, processes, log. So has --dry-run, since
# that only makes a call do less. Any other says what is meant in one call: a variable would turn a query into a change.
QueueArgument = Annotated[str, Argument(help="Name of the queue.", autocompletion=_complete_queue)]
OptionalQueueArgument = Annotated[
    str | None, Argument(help="Name of the queue; without it, all of them.", autocompletion=_complete_queue)
]
RedisOption = Annotated[
    str | None,
    Option(
        envvar="SEQUENCER_REDIS",
        callback=_server_named,
        help="Server URL: redis:// rediss:// unix:// valkey:// redis+sentinel:// redis+cluster://. "
        "Without it, the embedded server.",
    ),
]
NamespaceOption = Annotated[str, Option(envvar="SEQUENCER_NAMESPACE", help="Prefix of all keys.")]
JsonOption = Annotated[bool, Option("--json", help="Print JSON, for scripts.")]
LimitOption = Annotated[int, Option(min=1, max=10**9, help="Show at most this many.")]
AfterOption = Annotated[
    str | None, Option(metavar="PLACE", help="Go on behind this place, which the list before names at its end.")
]
GroupArgument = Annotated[
    list[str], Argument(metavar="PART...", help="The parts of the group, for example: 1002 2302393013")
]
OptionalGroupArgument = Annotated[list[str] | None, Argument(metavar="PART...", help="The parts of one group.")]
IdOption = Annotated[str, Option(help="Id of the message.")]


def dressed(call: Callable[..., Any], function: Callable[..., Any], shown: list[inspect.Parameter]) -> Any:
    """`call` under the name and the text of another function, with these parameters on the command line."""
    functools.update_wrapper(call, function)
    call.__annotations__ = {one.name: one.annotation for one in shown}
    keywords = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in shown]
    call.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]
    return call


def queue_command(of: typer.Typer, name: str | None = None) -> Callable[[FunctionT], FunctionT]:
    """Register a command that looks at one queue, or operates it: it gets a client of a queue that is there, and
    returns its Answer.

    The command line takes QUEUE, --redis, --namespace and --json.
    """

    def register(function: FunctionT) -> FunctionT:
        def command(
            queue: QueueArgument,
            redis: RedisOption = None,
            namespace: NamespaceOption = "sequencer",
            json: JsonOption = False,
            **given: Any,
        ) -> int:
            with Sequencer(queue, redis, namespace=namespace) as client:
                require_queue(client)
                answer: Answer = function(client=client, **given)
            return answer.show(json)

        _, *own = inspect.signature(function, eval_str=True).parameters.values()
        queue, *shared, _ = inspect.signature(command, eval_str=True).parameters.values()
        of.command(name)(dressed(command, function, [queue, *own, *shared]))
        return function

    return register


def text_of(client: Sequencer, code: str, **fields: Any) -> str:
    """An answer about the queue of a client."""
    return answer_text(code, queue=client.queue, namespace=client.options.namespace, **fields)


def cut(found: Sequence[Any], limit: int) -> str:
    """How to go on behind a list that is as long as it may be."""
    return answer_text("cut", count=limit, place=found[-1].place) if len(found) == limit else ""


def is_of_call(ctx: typer.Context, name: str) -> bool:
    """Whether the call itself gives a parameter its value."""
    source = ctx.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"sequencer {VERSION}")
        raise typer.Exit


def hear_interrupts() -> None:
    """From here on Ctrl-C is a KeyboardInterrupt: the command has something to put in order."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def hear_hangups() -> None:
    """Unblock SIGHUP; `cli/start` blocked it, since it must not end a `run` that is starting."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGHUP])


@app.callback()
def options(
    ctx: typer.Context,
    version: Annotated[
        bool, Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    log_level: Annotated[
        Literal["DEBUG", "INFO", "WARNING", "ERROR"],
        Option(envvar="SEQUENCER_LOG_LEVEL", case_sensitive=False, help="Lowest level that is logged."),
    ] = "WARNING",
    log_format: Annotated[
        Format, Option(envvar="SEQUENCER_LOG_FORMAT", case_sensitive=False, help="text, or json: one object per line.")
    ] = "text",
) -> None:
    if ctx.invoked_subcommand != "run":
        hear_hangups()
    for variable in FILLED:
        if os.environ.get(variable) == "":
            raise ConfigurationError("setting_empty", variable=variable)
    ctx.obj = LogOptions(log_level, log_format)
    configure(log_level, log_format)
    if ctx.invoked_subcommand not in ("consume", "run"):  # those load an application first
        hear_interrupts()
