"""The tables of targets: what they may say, the sentence for what is wrong, and that no sentence holds a secret."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from sequencer.errors import ConfigurationError
from sequencer.processes.alerts.targets import TYPES, read_target
from sequencer.settings.tables import variables_in

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
    ("table", "said"),
    [
        ("feishu", 'it must be a table with a type, as in type = "webhook"'),
        ({}, "it has no type; there are: webhook, command, feishu, "),
        ({"type": "feischu"}, "there is no type 'feischu'; did you mean 'feishu'?"),
        ({"type": "webhook", "uri": CANARY}, "there is no key 'uri'; did you mean 'url'?"),
        ({"type": "feishu", "secret": 7313}, "secret must be text"),
        ({"type": "webhook", **URL, "timeout": "9s"}, "timeout='9s' must be a duration from 0.1 to 8 s"),
        ({"type": "webhook"}, 'it has no url; put it into a variable, and write url = "env:NAME"'),
        ({"type": "webhook", "url": "env:NONE"}, "url: the variable NONE is not set"),
        ({"type": "webhook", "url": f"env:{CANARY} x"}, "url names no variable; write env:NAME"),
        ({"type": "webhook", "url": "env:EMPTY"}, "url: the variable EMPTY is empty, "),
        ({"type": "webhook", "url": f"https://ann:{CANARY}@a.example/"}, "put url into a variable"),
        ({"type": "webhook", "url": "a.example/hook"}, "url must begin with https://HOST or http://HOST"),
        ({"type": "webhook", "url": "env:PORT"}, "url must begin with https://HOST or http://HOST"),
        ({"type": "webhook", "url": "env:SPACE"}, "and have no spaces"),
        ({"type": "webhook", **URL, **SECRET}, "type 'webhook' takes no secret; leave it out"),
        ({"type": "feishu", **URL, "secret": CANARY}, "put secret into a variable"),
        ({"type": "feishu", **URL, "secret": "env:NEWLINE"}, "or begins or ends with a space"),
        ({"type": "feishu", "url": "https://open.feishu.cn/hook/1"}, "put url into a variable"),
        ({"type": "command"}, "exec is empty; give the command that notifies people"),
        ({"type": "command", "exec": "say 'it"}, "exec can't be split into words: no closing quotation"),
        (
            {"type": "command", "exec": "no-such-pager me"},
            "exec: command 'no-such-pager' is not found or not executable",
        ),
        ({"type": "apprise", "url": "env:SECRET"}, "beginning with the name of a service and ://"),
        (
            {"type": "apprise", "url": "env:OF_WECOM"},
            'does not notice when this robot refuses a message; write type = "wecom"',
        ),
    ],
)
def test_what_is_wrong_is_one_sentence_without_a_secret(table: Any, said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_target("ops", table)
    text = str(caught.value)
    assert text.startswith("targets.ops: ")
    assert said in text
    assert "\n" not in text
    assert CANARY not in text
    assert "7313" not in text


def test_without_apprise_the_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match=r"not installed: pip install apprise$"):
        read_target("ops", {"type": "apprise", "url": "env:MAIL"})


def test_a_command_with_a_slash_is_looked_for_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "page").write_text("#!/bin/sh\n")
    table = {"type": "command", "exec": "./page me"}
    with pytest.raises(ConfigurationError, match=r"command './page' is not found or not executable"):
        read_target("ops", table, directory=tmp_path)
    (tmp_path / "page").chmod(0o755)
    read_target("ops", table, directory=tmp_path)


def test_the_variables_of_a_file_are_found_wherever_they_are() -> None:
    queue = {"env": {"T": "env:TOKEN"}, "park_on": ["env:X", "env: no"]}
    assert variables_in({"redis": "env:REDIS", "n": 1, "queues": {"a": queue}}) == {"REDIS", "TOKEN", "X"}
