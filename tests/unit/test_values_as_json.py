"""Values as JSON: what a command prints with --json, and what a page would."""

from __future__ import annotations

import json

import orjson
import pytest

from sequencer import DeadLetter, Failure, Message, MessageInfo, Receipt
from sequencer.values import Gap
from sequencer.values.views import as_json

BODY = {"n": [1, {"deep": [2]}]}
MESSAGE = Message("m", ("7", "eu"), 1.0, BODY, {"h": "1"}, 1, 5, 0.5, "orders", 9)
SHOWN: dict[str, object] = {
    "id": "m",
    "group": ["7", "eu"],
    "score": 1.0,
    "body": BODY,
    "headers": {"h": "1"},
    "attempt": 1,
    "token": 5,
}
SHOWN |= {"appended_at": 0.5, "queue": "orders", "stamp": 9, "late": False, "redriven": False}
FAILURE = Failure("m", "ValueError", "no", "", 1, 0.5, "me")
FAILED: dict[str, object] = {
    "id": "m",
    "type": "ValueError",
    "message": "no",
    "traceback": "",
    "attempt": 1,
    "at": 0.5,
    "owner": "me",
}
FAILED |= {"outages": 0, "missing": 0, "missing_since": 0.0, "log": []}


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (MESSAGE, SHOWN),
        ([MESSAGE], [SHOWN]),
        (
            DeadLetter(MESSAGE, 2, FAILURE, 3.0, "letter"),
            {"message": SHOWN, "attempts": 2, "error": FAILED, "died_at": 3.0, "letter": "letter", "steps": None}
            | {"place": ""},
        ),
        (
            MessageInfo("m", ("7",), "handled"),
            {"id": "m", "group": ["7"], "state": "handled", "due_in_s": None, "attempts": 0, "error": None}
            | {"message": None, "status": "finished", "appended_at": None, "began_at": None, "finished_at": None}
            | {"consumer": "", "kind": "", "note": "", "steps": None, "rerun_of": "", "rerun_as": ""},
        ),
        (Gap(("7",), 1, 2), {"group": ["7"], "first": 1, "last": 2}),
        (Receipt("m", None, True), {"id": "m", "stamp": None, "duplicate": True, "outcome": None, "backlog": None}),
    ],
)
def test_each_value_becomes_what_json_can_hold(value: object, wanted: object) -> None:
    assert json.loads(json.dumps(as_json(value))) == wanted
    assert orjson.loads(orjson.dumps(as_json(value))) == wanted


def test_a_body_is_not_copied() -> None:
    assert as_json(MESSAGE)["body"] is BODY
