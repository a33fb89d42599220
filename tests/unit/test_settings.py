"""Each option is declared once; every face of it comes from there, also of one that is new."""

from __future__ import annotations

import inspect
import math
import typing
from contextlib import suppress
from dataclasses import make_dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import typer.main

import sequencer.processes.worker.config
from sequencer import Sequencer
from sequencer.cli.app import app
from sequencer.cli.declared import takes
from sequencer.cli.main import import_commands
from sequencer.drain.outcome import Decision, decide
from sequencer.errors import CommandFailed, ConfigurationError, LeaseExpired, Undecodable
from sequencer.processes.alerts.settings import QueueAlerts
from sequencer.processes.handlers.apps import App
from sequencer.processes.master.run_file import read_file
from sequencer.processes.worker.config import WorkerConfig, prepare
from sequencer.settings.option import (
    Option,
    brief,
    declared,
    option,
    read_options,
    read_table,
    seconds,
    shows,
    taken_by,
)
from sequencer.settings.options import (
    ClaimLimits,
    ConsumerOptions,
    ConsumerSettings,
    PoolOptions,
    QueueOptions,
    QueueSettings,
    RunOptions,
    ServiceOptions,
    consumer_options,
    queue_options,
)
from sequencer.settings.policy import NUMBERS, Policy, read_policy
from sequencer.settings.thresholds import Thresholds
from sequencer.testing import MemoryQueue
from sequencer.values.durations import LONGEST_S
from sequencer.values.durations import seconds as seconds_in

from ..support.refused import refused

OF_QUEUE, OF_CONSUMER = declared(QueueOptions, Policy), declared(ConsumerOptions)
KINDS = (QueueOptions, Policy, ServiceOptions, PoolOptions, RunOptions, Thresholds, QueueAlerts)
ALL = [(kind, one) for kind in KINDS for one in declared(kind).values()]
ONLY_IN_PYTHON = {"kind_by", "limits"}


def taken(command: str) -> dict[str, Any]:
    """The options of a command by their names."""
    import_commands()
    root: Any = typer.main.get_command(app)
    return {one.name: one for one in root.commands[command].params}


def good(one: Option) -> Any:
    """A value that is not the default, as a file has it."""
    tried = [
        *typing.get_args(one.kind.type),
        not one.default,
        0.5,
        1.5,
        40,
        2,
        ["KeyError"],
        {"A": "b"},
        "some.where",
        "h:1",
    ]
    return next(value for value in tried if value != one.default and is_taken(one, value))


def is_taken(one: Option, value: Any) -> bool:
    with suppress(ConfigurationError):
        one.kind.read(one.name, value)
        return True
    return False


def wrong(one: Option) -> list[Any]:
    """Values that it does not take."""
    lowest, highest = (part.split(" ")[-1] for part in f"{one.kind.bounds} to ".split(" to ")[:2])
    match one.kind.word:
        case "whole number":
            low, high = (int(part.replace(",", "")) for part in (lowest, highest))
            return [low - 1, high + 1, True, 1.5, math.nan, "1", None]
        case "duration":
            least, most = seconds_in(lowest), seconds_in(highest) or LONGEST_S
            return [*([least * 0.99] if least else []), most * 1.01, -1, "5x", math.nan, math.inf, True]
        case "number":
            return [1.1, -0.1, math.nan, "0.5", True]
        case "true or false":
            return [1, "yes"]
        case "table of texts":
            return [1, {"A": 1}]
        case "text":
            return [1, "", "  ", b"x", "NUL \0"]
    return [1, "", b"x"]


def test_the_keywords_are_the_options() -> None:
    for settings, known in ((QueueSettings, OF_QUEUE), (ConsumerSettings, OF_CONSUMER)):
        assert set(typing.get_type_hints(settings)) == {*known}
    for make, known in ((Sequencer, OF_QUEUE), (MemoryQueue, OF_QUEUE), (Sequencer.consume, OF_CONSUMER)):
        shown = inspect.signature(make).parameters
        assert [name for name in shown if name in known] == [*known]
        policies = declared(Policy) if known is OF_QUEUE else {}
        for name, one in known.items():
            assert shown[name].kind is inspect.Parameter.KEYWORD_ONLY
            assert shown[name].default == (None if name in policies else one.default)
    assert inspect.signature(Sequencer).parameters["max_attempts"].annotation == "int"


def test_the_commands_take_what_the_options_say() -> None:
    known = {**OF_QUEUE, **declared(ServiceOptions)}
    for command in ("append", "configure", "consume"):
        found = {name: one for name, one in taken(command).items() if name in known}
        assert set(found) == {name for name, one in known.items() if command in one.takers}
        for name, one in found.items():
            assert one.opts == [known[name].flag]
            assert one.envvar == known[name].variable
            assert one.default is None, "what is not named is not given"
    assert {name for name, one in known.items() if not one.takers} == ONLY_IN_PYTHON


@pytest.mark.parametrize("name", taken_by("run", QueueOptions, Policy, ServiceOptions, PoolOptions))
def test_the_file_of_run_takes_each_of_its_options(tmp_path: Path, name: str) -> None:
    one = taken_by("run", QueueOptions, Policy, ServiceOptions, PoolOptions)[name]
    value = {"cwd": str(tmp_path), "max": 7, "n": 2}.get(name, good(one))
    lines = {name: value} | ({"app": "shop:seq"} if name == "concurrency" else {})
    lines |= {"exec": "true"} if name not in ("app", "exec", "concurrency") else {}
    lines |= {"max_age": 9.0} if name == "hang_after" else {"history_window": 9.0} if name == "history_bodies" else {}
    lines |= {"dead_letter_on": []} if name == "park_on" else {}
    text = "\n".join(f"{key} = {written(value)}" for key, value in lines.items())
    path = tmp_path / "sequencer.toml"
    path.write_text(f"[queues.q]\n{text}\n")
    (pool,) = read_file(path).pools
    kept = pool.config.settings if name in OF_QUEUE else None
    found = kept.get(name) if kept is not None else getattr(pool.config, one.field, getattr(pool, one.field, None))
    assert found == one.kind.read(name, value)


def written(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {written(one)}' for key, one in value.items())} }}"
    return str(value).lower() if isinstance(value, bool) else repr(value)


@pytest.mark.parametrize(("kind", "one"), ALL, ids=lambda value: getattr(value, "name", ""))
def test_each_option_takes_what_it_says_and_nothing_else(kind: type, one: Option) -> None:
    assert one.help.endswith("."), one.name
    if one.name != "limits":
        kept = one.read(good(one))
        assert one.read(kept) == kept, "what is kept is read as the same"
    for value in [value for value in [*wrong(one), object(), [1]] if value is not one.default]:
        with pytest.raises(ConfigurationError) as caught:
            one.read(value)
        assert caught.value.fields.get("name", one.name) == one.name


def test_durations_are_kept_in_seconds() -> None:
    assert queue_options("q", "n", {"backoff": "1500ms", "dedup_window": "5m"}) == queue_options(
        "q", "n", {"backoff": 1.5, "dedup_window": 300}
    )
    assert [brief(given) for given in (0, 0.001, 15, 90, 300, 7200, 86_400)] == [
        *("0s", "1ms", "15s", "90s", "5m", "2h", "1d")
    ]


@pytest.mark.parametrize("make", [Sequencer, MemoryQueue, lambda queue, **more: consumer_options(**more)])
def test_an_unknown_option_is_refused_with_the_nearest(make: Any) -> None:
    for name in ("max_atempts", "max_mesages"):
        with refused(ConfigurationError, "name_unknown", kind="option", name=name) as caught:
            make("orders", **{name: 3})
        assert caught.value.fields["meant"].startswith("max_")


def test_an_option_that_is_declared_has_every_face() -> None:
    new: Any = option(seconds(1, 60), 5.0, "How long it naps.", ("consume", "run"), has_variable=True)
    made: Any = make_dataclass("Nap", [("nap_s", float, new)], frozen=True, namespace={"__post_init__": read_options})
    settings = typing.TypedDict("settings", {"nap": float}, total=False)  # noqa: UP013

    @shows(settings, made)
    def keyword(**given: Any) -> None: ...

    @takes("consume", made)
    def command(redis: str = "", **given: Any) -> dict[str, Any]:
        return given

    assert str(inspect.signature(keyword)).startswith("(*, nap: ")
    shown = inspect.signature(command).parameters
    assert list(shown) == ["nap", "redis"]
    (typed,) = shown["nap"].annotation.__metadata__
    assert (typed.default, typed.envvar, typed.help) == ("--nap", "SEQUENCER_NAP", "How long it naps. [default: 5s]")
    assert command(nap=7.0, redis="") == {"nap": 7.0}
    assert command(nap=None, redis="") == {}
    assert read_table({"nap": "1m"}, taken_by("run", made)) == {"nap": 60.0}
    assert (made().nap_s, made(nap_s="10s").nap_s) == (5.0, 10.0)
    with refused(ConfigurationError, "duration_invalid", name="nap", value=61, low=1, high=60):
        made(nap_s=61)


def test_a_policy_comes_back_from_the_server() -> None:
    odd = Policy(dedup_window=0.25, dedup_cap=7, watermark_window=2.5, watermark_cap=8, sequence=True, on_gap="skip")
    for policy in (Policy(), odd, Policy(on_late="drop", reorder_window=1.5, gap_timeout=0.1)):
        assert Policy(**read_policy(policy.stored())) == policy
        assert all(policy.stored().get(key, "0").isdigit() for key in NUMBERS)
    assert len({one.key for one in declared(Policy).values()}) == len(declared(Policy))
    assert Policy(dead_window=5).stored()["dead_us"] == "5000000"


def test_a_consumer_process_gets_the_settings_as_they_are() -> None:
    config = WorkerConfig(
        queue="q", settings={"max_attempts": 2, "backoff": 90.0, "park_on": ("KeyError",), "shards": 3}
    )
    options = prepare(config)[0].options
    assert (options.max_attempts, options.park_on, options.shards) == (2, ("KeyError",), 3)
    assert (options.backoff.base_s, options.backoff.cap_s) == (90.0, 90.0), "the cap gives way"
    assert prepare(WorkerConfig(queue="q"))[0].options == QueueOptions(queue="q")
    given = WorkerConfig(queue="q", lease_s=5, until_empty=True).given()
    assert given == {"queue": "q", "lease_s": 5, "until_empty": True, "settings": {}}
    assert WorkerConfig(**given) == WorkerConfig(queue="q", lease_s=5, until_empty=True)


def test_an_app_keeps_what_the_service_does_not_name(monkeypatch: pytest.MonkeyPatch) -> None:
    own = Sequencer("q", max_attempts=9, backoff=2, on_failure="drop", shards=2, dedup_window=9, dead_cap=3)
    own.handler(print)
    monkeypatch.setattr(sequencer.processes.worker.config, "load_app", lambda _: App(print, own))
    before = own.options
    config = WorkerConfig(queue="q", app="own:seq", settings={"backoff": 90.0, "outage": ("KeyError",), "dead_cap": 4})
    assert prepare(config)[0].options == replace(
        before, backoff_s=90.0, outage=("KeyError",), policy={"dedup_window": 9, "dead_cap": 4}
    )
    assert own._session.options is own.options


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (ServiceOptions, {"app": "a:b", "exec": "true"}),
        (ServiceOptions, {"pass_redis": True}),
        (ServiceOptions, {"until_empty": True, "until_idle": True}),
        (ClaimLimits, {"messages": 0}),
        (ClaimLimits, {"groups": True}),
        (QueueOptions, {"queue": "a b"}),
        (QueueOptions, {"queue": "q", "policy": {"dedup_cap": 0}}),
    ],
)
def test_options_that_do_not_fit_are_refused(kind: Any, settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        kind(**settings)


@pytest.mark.parametrize("error", [LeaseExpired, Undecodable, CommandFailed])
def test_what_no_handler_raised_can_be_named(error: type[Exception]) -> None:
    for name in (f"sequencer.errors.{error.__name__}", error.__name__, error):
        options = Sequencer("q", park_on=[name], on_failure="drop").options
        assert decide(options, 9, error("no"), 0.5) == Decision(None, "park")
