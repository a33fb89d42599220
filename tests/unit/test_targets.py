"""The tables of targets: what they may say, what is wrong, and that no error holds a secret."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from sequencer.errors import ConfigurationError
from sequencer.processes.alerts.targets import TYPES, read_target
from sequencer.settings.tables import variables_in

from ..support.refused import refused

CANARY = "canary-7f3a"
VARIABLES = {
    "URL": f"https://hooks.example/{CANARY}?key={CANARY}",
    "SECRET": f"{CANARY}-secret",
    "MAIL": f"mailto://ann:{CANARY}@example.com",
    "OF_WECOM": f"wecombot://{CANARY}",
    "SPACE": f"https://hooks.example/{CANARY} x",
    "NEWLINE": f"{CANARY}\n",
    "EMPTY": "",
    "PORT": f"https://hooks.example:99999/{CANARY}",
}


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)


URL, SECRET = {"url": "env:URL"}, {"secret": "env:SECRET"}
GOOD: list[dict[str, Any]] = [
    {"type": "webhook", "url": "https://hooks.example/alerts"},
    {"type": "webhook", **URL, "timeout": "8s"},
    {"type": "feishu", **URL, **SECRET},
    *({"type": kind, **URL} for kind in ("feishu", "dingtalk", "wecom")),
    {"type": "command", "exec": "true"},
    {"type": "apprise", "url": "env:MAIL"},
]


def test_every_type_is_read_and_shows_no_secret() -> None:
    assert {table["type"] for table in GOOD} == set(TYPES)
    for table in GOOD:
        target = read_target("ops", table)
        assert (target.name, target.kind, target.timeout_s) == ("ops", table["type"], 8 if "timeout" in table else 5)
        assert CANARY not in repr(target)


@pytest.mark.parametrize(
    ("table", "code", "fields"),
    [
        ("feishu", "table_expected", {"name": "targets.ops"}),
        ({}, "type_missing", {"known": [*TYPES]}),
        ({"type": "feischu"}, "name_unknown", {"kind": "type", "meant": "feishu"}),
        ({"type": "webhook", "uri": CANARY}, "name_unknown", {"kind": "key", "meant": "url"}),
        ({"type": "webhook"}, "secret_in_file", {"name": "url"}),
        ({"type": "webhook", "url": "env:NONE"}, "variable_missing", {"variable": "NONE"}),
        ({"type": "webhook", "url": f"env:{CANARY} x"}, "variable_name_invalid", {"name": "url"}),
        ({"type": "webhook", "url": "env:EMPTY"}, "variable_blank", {"variable": "EMPTY"}),
        ({"type": "webhook", "url": f"https://ann:{CANARY}@a.example/"}, "secret_in_file", {"name": "url"}),
        ({"type": "webhook", "url": "a.example/hook"}, "target_url_invalid", {}),
        ({"type": "webhook", "url": "env:PORT"}, "target_url_invalid", {}),
        ({"type": "webhook", "url": "env:SPACE"}, "target_url_invalid", {}),
        ({"type": "webhook", **URL, **SECRET}, "key_not_taken", {"type": "webhook", "name": "secret"}),
        ({"type": "feishu", **URL, "secret": CANARY}, "secret_in_file", {"name": "secret"}),
        ({"type": "feishu", **URL, "secret": "env:NEWLINE"}, "variable_blank", {"name": "secret"}),
        ({"type": "feishu", "url": "https://open.feishu.cn/hook/1"}, "secret_in_file", {"name": "url"}),
        ({"type": "command"}, "exec_missing", {}),
        ({"type": "command", "exec": "say 'it"}, "exec_not_split", {"error": "no closing quotation"}),
        ({"type": "command", "exec": "no-such-pager me"}, "command_not_found", {"command": "no-such-pager"}),
        ({"type": "apprise", "url": "env:SECRET"}, "apprise_url_refused", {}),
        ({"type": "apprise", "url": "env:OF_WECOM"}, "robot_of_apprise", {"type": "wecom"}),
    ],
)
def test_what_is_wrong_has_its_place_and_no_secret(table: Any, code: str, fields: dict[str, Any]) -> None:
    with refused(ConfigurationError, code, **fields) as caught:
        read_target("ops", table)
    text = str(caught.value)
    assert "targets.ops" in text
    assert "\n" not in text
    assert CANARY not in f"{text}{caught.value.fields}"


@pytest.mark.parametrize("table", [{"type": "feishu", "secret": 7313}, {"type": "webhook", **URL, "timeout": "9s"}])
def test_a_value_that_is_wrong_is_named_and_no_secret_shown(table: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_target("ops", table)
    assert caught.value.fields["place"] == ["targets.ops"]
    assert "7313" not in f"{caught.value}{caught.value.fields}"


def test_apprise_has_to_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with refused(ConfigurationError, "apprise_missing"):
        read_target("ops", {"type": "apprise", "url": "env:MAIL"})


def test_a_command_with_a_slash_is_looked_for_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "page").write_text("#!/bin/sh\n")
    table = {"type": "command", "exec": "./page me"}
    with refused(ConfigurationError, "command_not_found", command="./page"):
        read_target("ops", table, directory=tmp_path)
    (tmp_path / "page").chmod(0o755)
    read_target("ops", table, directory=tmp_path)


def test_the_variables_of_a_file_are_found_wherever_they_are() -> None:
    queue = {"env": {"T": "env:TOKEN"}, "park_on": ["env:X", "env: no"]}
    assert variables_in({"redis": "env:REDIS", "n": 1, "queues": {"a": queue}}) == {"REDIS", "TOKEN", "X"}
