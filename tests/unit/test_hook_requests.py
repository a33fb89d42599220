"""What webhook, chats and pagers are sent, and what counts as success in their answers; signatures by known vectors."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sequencer.processes.alarms.targets import chat, pagers
from sequencer.processes.alarms.targets.chat import CODES, ChatKind
from sequencer.processes.alarms.targets.pagers import PagerKind, incident_key
from sequencer.processes.alarms.targets.webhook import Answer, HookUrl, signature

from ..support.notices import NOTICE, notice

AT = 1_700_000_000.123


def test_the_signature_of_a_webhook() -> None:
    """printf '1700000000.{"a":1}' | openssl dgst -sha256 -hmac whsec"""
    expected = "v1=8ad37ba156048ae0e0a5533c75cdf26fee88b07f93cb57ee4c80adb053012032"
    assert signature("whsec", 1_700_000_000, b'{"a":1}') == expected


@pytest.mark.parametrize("kind", ["feishu", "lark"])
def test_feishu_signs_nothing_by_time_and_secret_in_the_body(kind: ChatKind) -> None:
    """printf '' | openssl dgst -sha256 -mac HMAC -macopt hexkey:(of '1700000000\\nfeishu-secret') -binary | base64"""
    text = {"msg_type": "text", "content": {"text": "hello"}}
    signed = {"timestamp": "1700000000", "sign": "OrBzY1Y01Gq+HgJsl+7OfWcMVwc7YocohQm5iiZwjhU="}
    assert chat.request(kind, "hello", None, AT) == (text, "")
    assert chat.request(kind, "hello", "feishu-secret", AT) == (text | signed, "")


def test_dingtalk_signs_time_and_secret_in_the_query() -> None:
    """printf '1700000000123\\nSECding' | openssl dgst -sha256 -hmac SECding -binary | base64"""
    text = {"msgtype": "text", "text": {"content": "hello"}}
    query = "?timestamp=1700000000123&sign=w2sRr5ajTnvQ7A9ms%2BkHfhfJ0Eci3%2BpVNL%2FC4j%2BnBrs%3D"
    assert chat.request("dingtalk", "hello", None, AT) == (text, "")
    assert chat.request("dingtalk", "hello", "SECding", AT) == (text, query)
    assert chat.request("wecom", "hello", None, AT) == (text, "")


@pytest.mark.parametrize(
    ("kinds", "status", "said", "refusal"),
    [
        ("feishu lark", 200, {"code": 0, "msg": "success", "data": {}}, ""),
        ("feishu lark", 200, {"StatusCode": 0, "StatusMessage": "success", "Extra": None}, ""),
        ("feishu lark", 200, {"code": 19021, "msg": "sign match fail"}, "it refused: code 19021: sign match fail"),
        ("feishu lark", 200, {"code": 9499, "StatusCode": 0, "msg": "Bad"}, "it refused: code 9499: Bad"),
        ("dingtalk wecom", 200, {"errcode": 0, "errmsg": "ok"}, ""),
        ("dingtalk wecom", 200, {"errcode": 310000, "errmsg": "no"}, "it refused: errcode 310000: no"),
        ("dingtalk wecom", 200, {"code": 0}, "it answered 200 (OK), without errcode = 0, which says success"),
        ("dingtalk wecom", 500, {"errcode": 0}, "it refused: errcode 0: "),
        ("feishu", 200, {"code": False}, "it refused: code False: "),
        ("feishu", 200, {}, "it answered 200 (OK), without code = 0, which says success"),
        ("feishu wecom", 200, [], "it answered 200 (OK), without the JSON of its success"),
        ("feishu wecom", 502, b"<html>", "it answered 502 (Bad Gateway), without the JSON of its success"),
        ("feishu", 799, b"[" * 10**5, "it answered 799, without the JSON of its success"),
    ],
)
def test_the_code_of_a_chat_is_what_counts(kinds: str, status: int, said: Any, refusal: str) -> None:
    body = said if isinstance(said, bytes) else json.dumps(said).encode()
    for kind in (kind for kind in CODES if kind in kinds.split()):
        assert chat.refusal(kind, Answer(status, body)) == refusal


def test_a_pager_opens_and_closes_by_the_key_of_the_incident() -> None:
    key, over = NOTICE.incident, notice(what="resolved")
    opened, closed = pagers.request("pagerduty", NOTICE, "R0"), pagers.request("pagerduty", over, "R0")
    names = ("routing_key", "event_action", "dedup_key")
    assert [opened.body[name] for name in names] == ["R0", "trigger", key]
    assert [closed.body[name] for name in names] == ["R0", "resolve", key]
    assert (opened.body["payload"]["severity"], opened.behind) == ("critical", "")
    assert opened.body["payload"]["custom_details"] == {"text": NOTICE.chat_text()}
    opened, closed = pagers.request("opsgenie", NOTICE, "K0"), pagers.request("opsgenie", over, "K0")
    assert (opened.body["alias"], opened.behind) == (key, "")
    assert closed.behind == "/shop%3Aorders%3Aparked%3A1700000000000000/close?identifierType=alias"
    assert "K0" not in json.dumps([opened, closed]), "its key is in a header"


def test_a_test_calls_nobody_at_night() -> None:
    test = notice(what="test")
    assert pagers.request("pagerduty", test, "R0").body["payload"]["severity"] == "info"
    assert pagers.request("opsgenie", test, "K0").body["priority"] == "P5"


def test_a_key_that_is_too_long_for_a_pager_is_hashed() -> None:
    assert incident_key(NOTICE) == NOTICE.incident
    long = notice(incident="a" * 256)
    assert len(incident_key(long)) == 64
    assert incident_key(long) != incident_key(notice(incident="b" * 256))


@pytest.mark.parametrize(
    ("kind", "status", "said", "refusal"),
    [
        ("pagerduty", 202, {"status": "success", "message": "Event processed"}, ""),
        ("pagerduty", 200, {"status": "success"}, "it answered 200 (OK): success"),
        ("pagerduty", 202, {"status": "throttled"}, "it answered 202 (Accepted): throttled"),
        ("pagerduty", 400, {"status": "invalid event", "errors": ["key"]}, "(Bad Request): invalid event: ['key']"),
        ("opsgenie", 202, {"result": "Request will be processed"}, ""),
        ("opsgenie", 202, b"", ""),
        ("opsgenie", 401, {"message": "Key format is not valid!"}, "(Unauthorized): Key format is not valid!"),
    ],
)
def test_what_a_pager_accepts(kind: PagerKind, status: int, said: Any, refusal: str) -> None:
    body = said if isinstance(said, bytes) else json.dumps(said).encode()
    found = pagers.refusal(kind, Answer(status, body))
    assert found.endswith(refusal)
    assert bool(found) == bool(refusal)


@pytest.mark.parametrize(
    ("url", "behind", "path", "host", "port"),
    [
        ("https://a.example", "", "/", "a.example", 443),
        ("http://a.example:81/x/?k=1", "", "/x/?k=1", "a.example", 81),
        ("https://a.example/x?k=1#part", "?sign=2", "/x?k=1&sign=2", "a.example", 443),
        ("https://a.example/x", "/y/close?by=alias", "/x/y/close?by=alias", "a.example", 443),
        ("https://[::1]:8443/x", "?a=1", "/x?a=1", "::1", 8443),
    ],
)
def test_the_parts_of_a_url(url: str, behind: str, path: str, host: str, port: int) -> None:
    parts = HookUrl(url)
    assert (parts.path(behind), parts.host, parts.port, parts.is_https) == (path, host, port, url.startswith("https"))


def test_user_and_password_of_a_url_become_a_header() -> None:
    assert HookUrl("https://ann:p%40ss@a.example/").headers == {"Authorization": "Basic YW5uOnBAc3M="}
    assert HookUrl("https://a.example/").headers == {}
