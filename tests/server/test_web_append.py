"""Messages over HTTP: what is stored and answered, each refusal with its status, and what their token may do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.requests import Request
from starlette.testclient import TestClient

from sequencer import Sequencer
from sequencer.errors import NotReplicated, OutcomeUnknown, QueueFull, ServerUnavailable
from sequencer.net.link import Link
from sequencer.store.keys import ShardKeys
from sequencer.viewers import QueueGone
from sequencer.web import Token, dashboard
from sequencer.web import append as web_append
from tests.support.handling import Make, drain
from tests.support.said import dump

TOKEN = "t" * 24


@pytest.fixture
def http(seq: Sequencer) -> Iterator[TestClient]:
    who = Token("o" * 24, append=TOKEN)
    seq.connect()
    client = TestClient(dashboard(redis=seq.endpoint, namespace=seq.options.namespace, who=who))
    client.headers["authorization"] = f"Bearer {TOKEN}"
    with client:
        yield client


def post(http: TestClient, value: Any, queue: str = "jobs") -> tuple[int, Any]:
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    answer = http.post(f"/q/{queue}/messages", content=text)
    return answer.status_code, answer.json()


def test_one_message_and_its_repeat(http: TestClient, seq: Sequencer) -> None:
    message = {"body": {"n": 1}, "group": [7, "eu"], "id": "m1", "score": "2026-11-23T10:00:00Z", "headers": {"a": "b"}}
    status, said = post(http, message)
    assert (status, said["id"], said["duplicate"]) == (202, "m1", False)
    assert post(http, message)[1]["duplicate"] is True
    (kept,) = seq.peek([7, "eu"])
    assert (kept.body, kept.headers, kept.score) == ({"n": 1}, {"a": "b"}, 1795428000.0)
    said = http.post("/q/jobs/messages?replace=true&backlog=true", json=message | {"body": 2}).json()
    assert (said["backlog"], [one.body for one in seq.peek([7, "eu"])]) == (1, [2])


def test_group_and_id_come_from_the_body_where_the_queue_says_so(make: Make, http: TestClient) -> None:
    seq = make("mails", group_by=("user",), id_by="event")
    seq.connect()
    assert post(http, {"body": {"user": 7, "event": "e1"}}, "mails")[1]["id"] == "e1"
    assert seq.peek("7")[0].id == "e1"
    status, said = post(http, [{"body": {"user": 7, "event": "e1"}}], "mails")
    assert (status, said["code"]) == (422, "group_missing")


def test_many_messages(http: TestClient, seq: Sequencer) -> None:
    messages = [{"body": n, "group": "g", "id": n} for n in range(300)]
    status, said = post(http, [*messages, messages[0]])
    assert (status, said["appended"], said["duplicates"], said["refused"]) == (202, 300, 1, [])
    assert drain(seq) == list(range(300))


@pytest.mark.parametrize(
    ("message", "status", "code"),
    [
        (b"{", 422, "line_not_json"),
        (b"\xff", 422, "line_not_json"),
        (b'{"body": 123456789012345678901234, "group": "g"}', 422, "number_too_large"),
        (7, 422, "line_without_body"),
        ({"group": "g"}, 422, "line_without_body"),
        ({"body": 1}, 422, "group_missing"),
        ({"body": 1, "group": None}, 422, "field_null"),
        ({"body": 1, "group": "g", "pipeline": 1}, 422, "name_unknown"),
        ({"body": 1, "group": "g", "score": True}, 422, "score_invalid"),
        ({"body": "x" * 2**20, "group": "g"}, 422, "too_large"),
        ({"body": 2, "group": "g", "id": "there"}, 409, "id_conflict"),
        ([{"body": 1, "group": "g"}, {"body": 2, "group": "g", "id": "there"}], 409, "batch_refused"),
        ([{"body": 1, "group": "g"}, {"body": 1, "group": "g", "score": "x"}], 422, "batch_refused"),
    ],
)
def test_what_append_refuses_is_refused(http: TestClient, seq: Sequencer, message: Any, status: int, code: str) -> None:
    seq.append(1, group="g", id="there")
    found, said = post(http, message)
    assert (found, said["code"]) == (status, code)
    assert said["text"]
    if code == "batch_refused":
        assert ([one["index"] for one in said["refused"]], said["appended"]) == ([1], 0)
    assert len(seq.peek("g")) == 1


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
    answer = http.post("/q/jobs/messages", json={"body": 1, "group": "g"})
    assert (answer.status_code, answer.headers["retry-after"]) == (status, retry)


def test_a_request_has_a_size_and_a_queue_that_is_there(
    http: TestClient, monkeypatch: pytest.MonkeyPatch, link: Link, seq: Sequencer
) -> None:
    assert post(http, {"body": 1, "group": "g"}, "jbos")[1]["code"] == "queue_unknown"
    monkeypatch.setattr(web_append, "MOST_BYTES", 100)
    before = dump(link)
    status, said = post(http, [{"body": n, "group": "g"} for n in range(20)])
    assert (status, said["code"]) == (413, "request_too_large")
    assert dump(link) == before


def test_a_request_has_a_time(http: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_append, "BODY_S", 0.05)

    async def receive() -> Any:
        await asyncio.Event().wait()

    scope = {"type": "http", "headers": [], "path_params": {"queue": "jobs"}, "app": http.app}
    assert asyncio.run(web_append.append(Request(scope, receive))).status_code == 408


def test_after_a_deletion_a_request_brings_no_queue_back(http: TestClient, seq: Sequencer, keys: ShardKeys) -> None:
    post(http, {"body": 1, "group": "g"})
    seq.delete()
    assert [post(http, {"body": 1, "group": "g"})[0] for _ in range(2)][-1] == 404


def test_the_token_may_append_and_nothing_else(http: TestClient, seq: Sequencer, link: Link) -> None:
    seq.append(1, group="g", id="m1")
    before = dump(link)
    for method, path in (
        *(("GET", path) for path in ("/", "/q/jobs/", "/q/jobs/messages", "/q/jobs/group?g=g", f"/?token={TOKEN}")),
        *(("POST", f"/q/jobs/{verb}?g=g&id=m1") for verb in ("pause", "cancel", "skip", "purge")),
    ):
        assert http.request(method, path, headers={"sec-fetch-site": "same-origin"}).status_code == 403, path
    http.headers["authorization"] = "Bearer " + "x" * 24
    assert http.post("/q/jobs/messages", json={"body": 1, "group": "g"}).status_code == 401
    assert dump(link) == before
