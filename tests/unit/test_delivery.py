"""Webhook, chats and pagers against a receiver that is well, ill, slow, or lies; no secret shows."""

from __future__ import annotations

import json
import logging
import shutil
import socket
import ssl
import subprocess
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path

import pytest

from sequencer.processes.alarms.notice import DeliveryFailed, Notice
from sequencer.processes.alarms.targets.chat import CODES, Chat, ChatKind
from sequencer.processes.alarms.targets.pagers import Pager
from sequencer.processes.alarms.targets.table import Target
from sequencer.processes.alarms.targets.webhook import HookUrl, Webhook, signature
from sequencer.testing import wait_until

from ..support.hook_server import HookServer, Mode, hook_server
from ..support.notices import NOTICE, notice

CANARY = "canary-7f3a"
SHORT_S, LONG_S = 0.3, 30.0
"""The time limit of a target: where the receiver never ends its answer, and where it answers."""
Make = Callable[[HookServer, float], Target]


def hook(server: HookServer, path: str = "") -> HookUrl:
    return HookUrl(server.url(f"/{CANARY}-path{path}?key={CANARY}-key"))


def webhook(server: HookServer, timeout_s: float = LONG_S) -> Target:
    return Webhook(name="ops", url=hook(server), secret=f"{CANARY}-secret", timeout_s=timeout_s)


def chat_of(kind: ChatKind) -> Make:
    secret = None if kind == "wecom" else f"{CANARY}-secret"

    def chat(server: HookServer, timeout_s: float) -> Target:
        return Chat(name="ops", kind=kind, url=hook(server), secret=secret, timeout_s=timeout_s)

    return chat


def pagerduty(server: HookServer, timeout_s: float = LONG_S) -> Target:
    return Pager(name="ops", kind="pagerduty", url=hook(server), secret=f"{CANARY}-secret", timeout_s=timeout_s)


def opsgenie(server: HookServer, timeout_s: float = LONG_S) -> Target:
    return Pager(name="ops", kind="opsgenie", url=hook(server), secret=f"{CANARY}-secret", timeout_s=timeout_s)


CHATS = [chat_of(kind) for kind in CODES]


def failure_of(target: Target, told: Notice = NOTICE) -> str:
    with pytest.raises(DeliveryFailed) as caught:
        target.send(told)
    return str(caught.value)


# -- what is taken -------------------------------------------------------------------------------------------


def test_a_webhook_is_sent_the_notice_signed_under_its_key() -> None:
    with hook_server(status=204) as server:
        webhook(server).send(NOTICE)
    (request,) = server.requests
    assert request.json() == NOTICE.as_json()
    assert request.path == f"/{CANARY}-path?key={CANARY}-key"
    assert request.headers["content-type"] == "application/json"
    assert request.headers["idempotency-key"] == NOTICE.key
    at = int(request.headers["sequencer-timestamp"])
    assert request.headers["sequencer-signature"] == signature(f"{CANARY}-secret", at, request.body)
    assert request.headers["host"] == server.place


def test_a_webhook_without_a_secret_is_not_signed() -> None:
    with hook_server() as server:
        Webhook(name="ops", url=HookUrl(server.url()), secret=None, timeout_s=LONG_S).send(NOTICE)
    assert "sequencer-signature" not in server.requests[0].headers


@pytest.mark.parametrize("make", CHATS)
def test_a_chat_is_sent_a_text_that_it_takes(make: Make) -> None:
    with hook_server() as server:
        make(server, LONG_S).send(notice(text="x" * 400, commands=("y" * 400,) * 9))
    (request,) = server.requests
    said = request.json()
    text = said["content"]["text"] if "content" in said else said["text"]["content"]
    assert text.startswith("sequencer production orders: parked\n")
    assert len(text.encode()) <= 4000


def test_pagers_are_sent_their_key_where_they_look_for_it() -> None:
    with hook_server(status=202) as server:
        for make in (pagerduty, opsgenie):
            make(server).send(NOTICE)
            make(server).send(notice(what="resolved"))
    trigger, resolve, create, close = server.requests
    assert (trigger.json()["event_action"], resolve.json()["event_action"]) == ("trigger", "resolve")
    assert create.headers["authorization"] == close.headers["authorization"] == f"GenieKey {CANARY}-secret"
    assert close.path.startswith(f"/{CANARY}-path/shop%3Aorders%3Aparked%3A1700000000000000/close?key=")


def test_a_status_of_success_is_enough_for_a_webhook_whatever_comes_behind_it() -> None:
    with hook_server("lie") as server:
        webhook(server).send(NOTICE)


# -- what is not ---------------------------------------------------------------------------------------------


def assert_a_lie_is_seen(make: Make, status: int = 200) -> None:
    """The receiver answers with a status of success, and refuses inside."""
    with hook_server("lie", status=status) as server:
        said = failure_of(make(server, LONG_S))
    assert any(word in said for word in ("code 19021: sign match fail", "errcode 310000: sign not match", ": invalid"))


@pytest.mark.parametrize("make", CHATS)
def test_a_refusal_inside_a_success_is_a_failure(make: Make) -> None:
    assert_a_lie_is_seen(make)


def test_so_it_is_of_a_pager() -> None:
    assert_a_lie_is_seen(pagerduty, 202)


class _OnlyStatus:
    """The broken twin: a chat that reads the status, and not the code."""

    name, kind, timeout_s = "ops", "feishu", LONG_S

    def __init__(self, server: HookServer) -> None:
        self._place = server.place

    def send(self, told: Notice) -> None:
        connection = HTTPConnection(self._place)
        connection.request("POST", "/", told.body())
        with connection.getresponse() as response:
            if response.status >= 300:
                raise DeliveryFailed(str(response.status))
        connection.close()


def test_a_twin_that_reads_only_the_status_is_red() -> None:
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        assert_a_lie_is_seen(lambda server, _: _OnlyStatus(server))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("500", "it answered 500 (Internal Server Error)"),
        ("redirect", "it answered 302, a redirect, and that is not followed"),
        ("close", "the connection was closed without an answer"),
        ("hang", f"no answer within {SHORT_S} s"),
        ("drip", f"no answer within {SHORT_S} s"),
    ],
)
@pytest.mark.parametrize("make", [webhook, CHATS[0]])
def test_what_is_no_success_is_told_and_shows_no_secret(
    make: Make, mode: Mode, said: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    with hook_server(mode) as server:
        target = make(server, SHORT_S if mode in ("hang", "drip") else LONG_S)
        text = failure_of(target)
        wait_until(lambda: server.requests, LONG_S, "it came")
    assert text.startswith(said)
    assert len(server.requests) == 1, "a redirect is not followed, and tries are the sender's"
    assert CANARY in server.requests[0].path
    for shown in (text, repr(target), caplog.text, *capfd.readouterr(), str(NOTICE.as_json())):
        assert CANARY not in shown


@pytest.mark.slow
def test_a_body_that_drips_behind_a_good_status_holds_a_webhook_no_longer_and_a_chat_to_the_limit() -> None:
    with hook_server("drip") as server:
        with pytest.raises(DeliveryFailed, match=f"no answer within {SHORT_S} s"):
            CHATS[2](server, SHORT_S).send(NOTICE)
        webhook(server, LONG_S).send(NOTICE)


@pytest.mark.parametrize("make", [CHATS[0], pagerduty])
def test_what_a_receiver_echoes_is_hidden(make: Make) -> None:
    words = f"no hook /{CANARY}-path?key={CANARY}-key {CANARY}-secret\n2"
    with hook_server() as server:
        server.said = json.dumps({"code": 1, "msg": words, "status": words}).encode()
        text = failure_of(make(server, LONG_S))
    assert "***" in text
    assert CANARY not in text
    assert "\n" not in text


def test_nobody_there_is_told_without_the_address() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = HookUrl(f"http://127.0.0.1:{free.getsockname()[1]}/{CANARY}")
        assert failure_of(Webhook(name="ops", url=url, secret=None, timeout_s=LONG_S)) == "the connection is refused"
    missing = Webhook(name="ops", url=HookUrl("http://no-such-host.invalid/"), secret=None, timeout_s=LONG_S)
    assert failure_of(missing) == "the name of its host can't be resolved"


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not on PATH; it makes the certificate")
def test_a_certificate_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    words = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=here"]
    names = ["-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(["openssl", "req", *words, *names, *files], check=True, capture_output=True)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    with hook_server(tls=tls) as server:
        target = webhook(server)
        assert failure_of(target).startswith("its certificate is refused: self-signed certificate")
        assert not server.requests
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        target.send(NOTICE)
    assert server.requests[0].headers["idempotency-key"] == NOTICE.key
