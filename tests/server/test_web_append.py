"""Messages over HTTP: what is stored and answered, each refusal with its status, and what their token may do."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.testclient import TestClient

from sequencer import Sequencer
from sequencer.client import QueueGone
from sequencer.errors import NotReplicated, OutcomeUnknown, QueueFull, ServerUnavailable
from sequencer.web import Token
from tests.support.browse import browse
from tests.support.handling import Make, drain

TOKEN = "t" * 24
ONE: dict[str, Any] = {"body": 1, "group": "g"}
TAKEN = ONE | {"body": 2, "id": "there"}


@pytest.fixture
def http(seq: Sequencer) -> TestClient:
    seq.append(1, group="g", id="there")
    client = browse(seq, Token("o" * 24, append=TOKEN))
    client.headers = {"authorization": f"Bearer {TOKEN}"}
    return client


def post(http: TestClient, value: Any, path: str = "jobs/messages") -> tuple[int, Any]:
    answer = http.post(f"/q/{path}", content=value if isinstance(value, bytes) else json.dumps(value).encode())
    return answer.status_code, answer.json()


def test_one_message_and_its_repeat(http: TestClient, seq: Sequencer) -> None:
    message = {"body": {"n": 1}, "group": [7, "eu"], "id": "m1", "score": "2026-11-23T10:00:00Z", "headers": {"a": "b"}}
    for is_duplicate in (False, True):
        status, said = post(http, message)
        assert (status, said["id"], said["duplicate"]) == (202, "m1", is_duplicate)
    (kept,) = seq.peek([7, "eu"])
    assert (kept.body, kept.headers, kept.score) == ({"n": 1}, {"a": "b"}, 1795428000.0)
    said = post(http, message | {"body": 2}, "jobs/messages?replace=true&backlog=true")[1]
    assert (said["backlog"], [one.body for one in seq.peek([7, "eu"])]) == (1, [2])


def test_many_messages(http: TestClient, seq: Sequencer, make: Make) -> None:
    messages = [ONE | {"body": n, "id": n} for n in range(300)]
    status, said = post(http, [*messages, messages[0]])
    assert (status, said["appended"], said["duplicates"], said["refused"]) == (202, 300, 1, [])
    assert drain(seq) == [1, *range(300)]
    make("mails", group_by=("user",), id_by="event").connect()
    of_body = {"body": {"user": 7, "event": "e1"}}
    assert post(http, of_body, "mails/messages")[1]["id"] == "e1"
    assert post(http, [of_body], "mails/messages")[1]["code"] == "group_missing"


@pytest.mark.parametrize(
    ("message", "status", "code"),
    [
        (b"\xff", 422, "line_not_json"),
        (b'{"body": 123456789012345678901234, "group": "g"}', 422, "number_too_large"),
        (7, 422, "line_without_body"),
        ({"group": "g"}, 422, "line_without_body"),
        ({"body": 1}, 422, "group_missing"),
        (ONE | {"group": None}, 422, "field_null"),
        (ONE | {"pipeline": 1}, 422, "name_unknown"),
        (ONE | {"score": True}, 422, "score_invalid"),
        (ONE | {"body": "x" * 2**20}, 422, "too_large"),
        (ONE | {"body": "x" * 2**23}, 422, "request_too_large"),
        (TAKEN, 409, "id_conflict"),
        ([ONE, TAKEN], 409, "batch_refused"),
        ([ONE, ONE | {"score": "x"}], 422, "batch_refused"),
    ],
)
def test_what_append_refuses_is_refused(http: TestClient, seq: Sequencer, message: Any, status: int, code: str) -> None:
    found, said = post(http, message)
    assert (found, said["code"], bool(said["text"])) == (status, code, True)
    if code == "batch_refused":
        assert ([one["index"] for one in said["refused"]], said["appended"]) == ([1], 0)
    assert [one.id for one in seq.peek("g")] == ["there"]


@pytest.mark.parametrize(
    ("error", "status", "retry"),
    [
        (QueueFull(server="s"), 503, "10"),
        (ServerUnavailable(server="s", error=""), 503, "5"),
        (OutcomeUnknown(id="m1"), 504, "1"),
        (NotReplicated("not_replicated", id="m1", confirmed=0, wanted=1), 504, "1"),
        (QueueGone(), 503, "1"),
    ],
)
def test_what_may_pass_later_says_when(
    http: TestClient, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int, retry: str
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(Sequencer, "append", fail)
    answer = http.post("/q/jobs/messages", json=ONE)
    assert (answer.status_code, answer.headers["retry-after"]) == (status, retry)


def test_a_request_makes_no_queue_and_needs_the_token(http: TestClient, seq: Sequencer) -> None:
    assert post(http, ONE, "jbos/messages")[1]["code"] == "queue_unknown"
    assert http.get(f"/q/jobs/?token={TOKEN}").status_code == 403, "it opens no page"
    assert post(http, ONE)[0] == 202
    seq.delete()
    assert [post(http, ONE)[0] for _ in range(2)][-1] == 404
    http.headers["authorization"] = "Bearer " + "x" * 24
    status, said = post(http, ONE)
    assert (status, said["code"], said["fields"]) == (401, "access_denied", {})
