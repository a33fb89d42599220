"""The options of a queue stand in one list: clients, policy, worker and command line take them from it."""

from __future__ import annotations

import inspect
import typing
from dataclasses import fields, replace
from datetime import timedelta
from typing import Any

import pytest
import typer.main

import sequencer.processes.worker.config
from sequencer import Sequencer
from sequencer.cli.app import app
from sequencer.cli.main import import_commands
from sequencer.drain.outcome import Decision, decide
from sequencer.errors import CommandFailed, ConfigurationError, LeaseExpired, Undecodable
from sequencer.processes.handlers.apps import App
from sequencer.processes.worker.config import WorkerConfig, overrides, prepare
from sequencer.settings.options import DEFAULTS, FIELD_OF, QueueOptions, QueueSettings
from sequencer.settings.policy import FIELDS, NAMES, Policy, read_policy
from sequencer.testing import MemoryQueue

SETTINGS = list(typing.get_type_hints(QueueSettings))
USUAL: dict[str, Any] = dict(DEFAULTS)
ONLY_OF_STEPS = {"kind_by", "on_unknown", "on_unresolved", "retired", "missing_wait"}
"""Of the program that declares the steps."""
ONLY_IN_PYTHON = {"backoff_cap", "wait_replicas", "wait_timeout", *ONLY_OF_STEPS}


def taken_by(command: str) -> dict[str, Any]:
    """The options of a command by their names in Python."""
    import_commands()
    root: Any = typer.main.get_command(app)
    return {one.name: one for one in root.commands[command].params}


def test_settings_and_fields_of_the_options_are_the_same() -> None:
    assert list(FIELD_OF) == SETTINGS == list(DEFAULTS)
    assert {one.name for one in fields(QueueOptions)} == {"queue", "namespace", *FIELD_OF.values()}
    hints, stored = typing.get_type_hints(QueueSettings), typing.get_type_hints(QueueOptions)
    taken_otherwise = {"group_by", "park_on", "dead_letter_on", "outage", "retired"}
    durations = {name for name in SETTINGS if timedelta in typing.get_args(hints[name])}
    assert {name for name in SETTINGS if hints[name] != stored[FIELD_OF[name]]} == taken_otherwise | durations


def test_each_policy_is_a_setting_and_has_one_field_in_the_server() -> None:
    assert [one.name for one in fields(Policy)] == list(NAMES) == [name for name in SETTINGS if name in NAMES]
    assert all(USUAL[name] is None for name in NAMES), "what nobody names is taken from the server"
    assert len({field.key for field in FIELDS.values()}) == len(FIELDS)
    odd = Policy(dedup_window=0.25, dedup_cap=7, watermark_window=2.5, watermark_cap=8, sequence=True, on_gap="skip")
    for policy in (Policy(), odd, Policy(on_late="drop", reorder_window=1.5, gap_timeout=0.1)):
        assert Policy(**read_policy(policy.stored())) == policy
    hints = typing.get_type_hints(Policy)
    assert {name for name, field in FIELDS.items() if field.is_number} == {
        name for name in NAMES if hints[name] in (int, float)
    }


def test_the_command_line_has_each_setting_with_its_default() -> None:
    commands = {name: taken_by(name) for name in ("append", "consume", "configure")}
    assert set(SETTINGS) - {name for taken in commands.values() for name in taken} == ONLY_IN_PYTHON
    assert [name for name in commands["configure"] if name in SETTINGS] == list(NAMES)
    for taken in commands.values():
        for name in set(SETTINGS) & set(taken):
            assert (taken[name].default or None) == (USUAL[name] or None), name


def test_the_signature_shows_all_settings_with_their_defaults() -> None:
    shown = inspect.signature(Sequencer).parameters
    assert list(shown) == ["queue", "redis", "namespace", *SETTINGS]
    assert {name: one.default for name, one in shown.items() if name in SETTINGS} == DEFAULTS
    assert shown["max_attempts"].annotation == "int"
    assert str(inspect.signature(Sequencer.__init__)).startswith("(self, queue: 'str', redis: 'Any' = None, *, ")
    assert inspect.signature(Sequencer.__init__).parameters["wait_timeout"].kind is inspect.Parameter.KEYWORD_ONLY


@pytest.mark.parametrize("make", [Sequencer, MemoryQueue])
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("max_atempts", "a Sequencer has no option 'max_atempts'; did you mean 'max_attempts'?"),
        ("backoff_s", "did you mean 'backoff'?"),
        ("colour", "there are: group_by, id_by, score_by, shards, "),
    ],
)
def test_an_unknown_option_is_refused_with_the_nearest(make: Any, name: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        make("orders", **{name: 3})
    assert said in str(raised.value)


def test_a_consumer_process_gets_the_settings_as_they_are() -> None:
    settings: QueueSettings = {"max_attempts": 2, "backoff": 90.0, "park_on": ("KeyError",), "shards": 3}
    options = prepare(WorkerConfig(queue="q", settings=settings))[0].options
    assert (options.max_attempts, options.park_on, options.shards) == (2, ("KeyError",), 3)
    assert (options.backoff_s, options.backoff_cap_s) == (90.0, 90.0), "the cap gives way"
    assert prepare(WorkerConfig(queue="q"))[0].options == QueueOptions(queue="q")


def test_an_app_keeps_what_the_command_line_does_not_name(monkeypatch: pytest.MonkeyPatch) -> None:
    app = Sequencer("q", max_attempts=9, backoff=2, backoff_cap=3, on_failure="drop", shards=2)
    app.handler(print)
    monkeypatch.setattr(sequencer.processes.worker.config, "load_app", lambda _: App(print, app))
    config = WorkerConfig(queue="q", app="own:seq", settings={"backoff": 90.0, "on_failure": "drop"})
    assert overrides(config) == ["backoff=90.0 (its own: 2)"]
    other = replace(config, settings={"outage": ("KeyError",)})
    assert overrides(other) == ["outage=KeyError (its own: ConnectionError,TimeoutError)"]
    options = prepare(config)[0].options
    assert options == replace(QueueOptions(queue="q"), **{**OWN, "backoff_s": 90.0, "backoff_cap_s": 90.0})
    assert prepare(WorkerConfig(queue="q", app="own:seq"))[0].options == options


OWN: dict[str, Any] = {"max_attempts": 9, "on_failure": "drop", "shards": 2}


@pytest.mark.parametrize("module", ["sequencer.errors.", ""])
def test_the_error_of_a_command_can_be_named(module: str) -> None:
    options = Sequencer("q", dead_letter_on=[f"{module}CommandFailed"]).options
    assert decide(options, 1, CommandFailed("no"), 0.5) == Decision(None, "dead")
    assert decide(options, 1, ValueError("no"), 0.5).delay_s is not None


@pytest.mark.parametrize("error", [LeaseExpired, Undecodable])
def test_what_no_handler_raised_can_be_named(error: type[Exception]) -> None:
    for name in (f"sequencer.errors.{error.__name__}", error.__name__, error):
        options = Sequencer("q", park_on=[name], on_failure="drop").options
        assert decide(options, 9, error("no"), 0.5) == Decision(None, "park")
