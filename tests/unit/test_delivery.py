"""Targets of alerts: a webhook, robots, apprise and a command; what they are sent, failures, and no secret shows."""

from __future__ import annotations

import json
import logging
import os
import shutil
import socket
import ssl
import subprocess
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sequencer.processes.alerts.notice import DeliveryFailed
from sequencer.processes.alerts.targets import (
    CODE,
    ByApprise,
    Command,
    Robot,
    Webhook,
    nothing_logged,
    split_url,
    words_of,
)
from sequencer.processes.consumer_process import AWAITED_LOCK, reap_orphans
from sequencer.testing import wait_until

from ..support.hook_server import HookServer, Mode, hook_server
from ..support.notices import NOTICE, notice
from ..support.refused import refused

CANARY = "canary-7f3a"
SHORT_S, LONG_S = 0.5, 30.0
"""The time limit of a target: where the receiver does not answer, and where it does."""


def webhook(server: HookServer, timeout_s: float = LONG_S) -> Webhook:
    url = split_url(server.url(f"/{CANARY}-path?key={CANARY}-key"))
    return Webhook(name="ops", url=url, timeout_s=timeout_s)


def robot(server: HookServer, kind: str, timeout_s: float = LONG_S) -> Robot:
    url = split_url(server.url(f"/{CANARY}-path?key={CANARY}-key"))
    secret = f"{CANARY}-secret" if kind == "feishu" else None
    return Robot(name="ops", kind=kind, url=url, secret=secret, timeout_s=timeout_s)


def fails(target: Webhook | Command | ByApprise, code: str, **fields: Any) -> str:
    """It does, with this code and these fields: its text."""
    with refused(DeliveryFailed, code, **fields) as caught:
        target.send(NOTICE)
    return str(caught.value)


def test_a_webhook_is_sent_the_notice_under_its_key() -> None:
    with hook_server(status=204) as server:
        webhook(server).send(NOTICE)
    (request,) = server.requests
    assert request.json() == NOTICE.as_json()
    assert request.path == f"/{CANARY}-path?key={CANARY}-key"
    assert request.headers["content-type"] == "application/json"
    assert request.headers["idempotency-key"] == NOTICE.key
    assert request.headers["host"] == server.place


def test_user_and_password_of_a_url_become_a_header() -> None:
    with hook_server() as server:
        url = server.url("").replace("://", "://ann:p%40ss@")
        Webhook(name="ops", url=split_url(url), timeout_s=LONG_S).send(NOTICE)
    (request,) = server.requests
    assert (request.path, request.headers["authorization"]) == ("/", "Basic YW5uOnBAc3M=")


@pytest.mark.parametrize("kind", CODE)
def test_a_robot_is_sent_a_text_that_it_takes(kind: str) -> None:
    with hook_server() as server:
        robot(server, kind).send(notice(text="x" * 400, commands=("y" * 400,) * 9))
    (request,) = server.requests
    said = request.json()
    text = said["content"]["text"] if kind == "feishu" else said["text"]["content"]
    assert text.startswith("sequencer production orders: parked\n")
    assert len(text.encode()) <= (2048 if kind == "wecom" else 4000)


def test_feishu_signs_nothing_by_time_and_secret() -> None:
    """printf '' | openssl dgst -sha256 -mac HMAC -macopt hexkey:(of '1700000000\\nfeishu-secret') -binary | base64"""
    target = Robot(
        name="ops", kind="feishu", url=split_url("https://a.example"), secret="feishu-secret", timeout_s=LONG_S
    )
    assert target.request("hello", 1_700_000_000.123) == {
        "msg_type": "text",
        "content": {"text": "hello"},
        "timestamp": "1700000000",
        "sign": "OrBzY1Y01Gq+HgJsl+7OfWcMVwc7YocohQm5iiZwjhU=",
    }


@pytest.mark.parametrize("kind", CODE)
@pytest.mark.parametrize(
    "answer", [{"code": 19021, "errcode": 19021}, {"code": False, "errcode": None}, {}, [], b"<html>", b"[" * 10**5]
)
def test_a_refusal_inside_a_success_is_a_failure_of_a_robot(kind: str, answer: object) -> None:
    fields = {"name": CODE[kind], "number": 19021} if "19021" in str(answer) else {"name": CODE[kind]}
    with hook_server() as server:
        server.said = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        fails(robot(server, kind), "alert_refused" if "number" in fields else "alert_answer_unreadable", **fields)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "code", "fields"),
    [
        ("500", "alert_status", {"status": 500}),
        ("redirect", "alert_status", {"status": 302}),
        ("close", "alert_not_posted", {"error": "RemoteDisconnected"}),
        ("hang", "alert_not_answered", {}),
    ],
)
@pytest.mark.parametrize("kind", ["webhook", "feishu"])
def test_what_is_no_success_is_told_and_shows_no_secret(
    kind: str,
    mode: Mode,
    code: str,
    fields: dict[str, Any],
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    with hook_server(mode) as server:
        timeout_s = SHORT_S if mode == "hang" else LONG_S
        target = webhook(server, timeout_s) if kind == "webhook" else robot(server, "feishu", timeout_s)
        text = fails(target, code, **fields)
        wait_until(lambda: server.requests, LONG_S, "it came")
    assert len(server.requests) == 1, "a redirect is not followed, and attempts are the sender's"
    assert CANARY in server.requests[0].path
    for shown in (text, repr(target), caplog.text, *capfd.readouterr(), str(NOTICE.as_json())):
        assert CANARY not in shown


def test_what_a_robot_echoes_is_not_shown() -> None:
    with hook_server() as server:
        server.said = json.dumps({"code": 1, "msg": f"no hook /{CANARY}-path {CANARY}-secret"}).encode()
        assert CANARY not in fails(robot(server, "feishu"), "alert_refused", name="code", number=1)
        server.said = json.dumps({"code": f"{CANARY}-path"}).encode()
        assert CANARY not in fails(robot(server, "feishu"), "alert_answer_unreadable", name="code")


def test_nobody_there_is_told_without_the_address() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = split_url(f"http://127.0.0.1:{free.getsockname()[1]}/{CANARY}")
        target = Webhook(name="ops", url=url, timeout_s=LONG_S)
        assert CANARY not in fails(target, "alert_not_posted", error="Connection refused")
    missing = Webhook(name="ops", url=split_url("http://no-such-host.invalid/"), timeout_s=LONG_S)
    assert "invalid" not in fails(missing, "alert_not_posted")


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
        fails(target, "alert_certificate_refused")
        assert not server.requests
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        target.send(NOTICE)
    assert server.requests[0].headers["idempotency-key"] == NOTICE.key


# -- apprise, by its JSON webhook ----------------------------------------------------------------------------------


pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")
"""A module of Python that apprise imports, before 3.13."""


def by_apprise(server: HookServer, timeout_s: float = LONG_S) -> ByApprise:
    url = f"json://ann:{CANARY}@{server.place}/{CANARY}"
    return ByApprise(name="ops", url=url, timeout_s=timeout_s)


def sent(**changes: Any) -> dict[str, Any]:
    with hook_server() as server:
        by_apprise(server).send(notice(**changes))
    (request,) = server.requests
    return dict(request.json())


@pytest.mark.slow
def test_title_and_lines_are_sent_with_the_type_of_the_notice() -> None:
    title, *lines = NOTICE.lines
    said = sent()
    assert (said["title"], said["message"].splitlines(), said["type"]) == (title, lines, "failure")
    assert [sent(what=what)["type"] for what in ("resolved", "test")] == ["success", "info"]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["500", "close", "hang"])
def test_what_apprise_says_is_believed_and_what_it_logs_is_dropped(
    mode: Mode, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    with hook_server(mode) as server:
        target = by_apprise(server, SHORT_S if mode == "hang" else LONG_S)
        fails(target, "apprise_failed")
        wait_until(lambda: server.requests, LONG_S, "it came")
    for shown in (repr(target), caplog.text, *capfd.readouterr()):
        assert CANARY not in shown


@pytest.mark.slow
def test_a_url_that_apprise_does_not_take_is_told_without_it(caplog: pytest.LogCaptureFixture) -> None:
    for url in (f"nonsense://{CANARY}", f"slack://{CANARY}"):
        text = fails(ByApprise(name="ops", url=url, timeout_s=LONG_S), "apprise_url_refused")
        assert CANARY not in f"{text}{caplog.text}"


@pytest.mark.slow
def test_an_incident_of_pagerduty_is_opened_and_resolved_by_one_key(monkeypatch: pytest.MonkeyPatch) -> None:
    posted: list[dict[str, Any]] = []

    def post(url: str, data: str, **_: object) -> SimpleNamespace:
        posted.append(json.loads(data))
        return SimpleNamespace(status_code=202, content=b"")

    monkeypatch.setattr("requests.post", post)
    target = ByApprise(name="ops", url=f"pagerduty://{CANARY}@{CANARY}", timeout_s=LONG_S)
    for told in (NOTICE, notice(what="news"), notice(what="resolved"), notice(incident="b")):
        target.send(told)
    assert [one["event_action"] for one in posted] == ["trigger", "trigger", "resolve", "trigger"]
    first, *same, other = [one["dedup_key"] for one in posted]
    assert same == [first, first] != [other, other]


def test_what_other_threads_log_meanwhile_is_shown(caplog: pytest.LogCaptureFixture) -> None:
    log = logging.getLogger("urllib3.connectionpool")
    with nothing_logged():
        log.warning("mine %s", CANARY)
        other = threading.Thread(target=log.warning, args=("theirs",))
        other.start()
        other.join()
    log.warning("after")
    assert caplog.messages == ["theirs", "after"]


# -- a command -----------------------------------------------------------------------------------------------------


def command(directory: Path, script: str, *, hidden: tuple[str, ...] = (), timeout_s: float = LONG_S) -> Command:
    (directory / "page").write_text(f"#!/bin/sh\n{script}\n")
    (directory / "page").chmod(0o755)
    words = words_of("./page 'to me'", directory)
    return Command(name="ops", words=words, directory=directory, hidden=frozenset(hidden), timeout_s=timeout_s)


def test_it_gets_the_notice_and_runs_beside_the_file(tmp_path: Path) -> None:
    command(tmp_path, 'cat > got; echo "$1|$SEQUENCER_ALERT_KEY|$SEQUENCER_ALERT_WHAT" > words').send(NOTICE)
    assert json.loads((tmp_path / "got").read_bytes()) == NOTICE.as_json()
    assert (tmp_path / "words").read_text() == f"to me|{NOTICE.key}|open\n"


def test_its_environment_has_names_of_the_alert_and_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SEQUENCER_REDIS", "FEISHU_URL", "PAGER_OPTION"):
        monkeypatch.setenv(name, "canary-7f3a")
    command(tmp_path, "env > variables", hidden=("FEISHU_URL",)).send(NOTICE)
    given = dict(line.split("=", 1) for line in (tmp_path / "variables").read_text().splitlines() if "=" in line)
    assert {name for name, value in given.items() if "canary-7f3a" in value} == {"PAGER_OPTION"}
    assert {name: value for name, value in given.items() if name.startswith("SEQUENCER_")} == {
        "SEQUENCER_ALERT_KEY": NOTICE.key,
        "SEQUENCER_ALERT_INCIDENT": NOTICE.incident,
        "SEQUENCER_ALERT_WHAT": "open",
        "SEQUENCER_ALERT_QUEUE": "orders",
        "SEQUENCER_ALERT_KIND": "parked",
    }


@pytest.mark.parametrize(("script", "status"), [("exit 3", 3), ("kill -9 $$", -9)])
def test_another_end_than_success_is_told(
    tmp_path: Path, script: str, status: int, capfd: pytest.CaptureFixture[str]
) -> None:
    fails(command(tmp_path, f"echo why >&2; {script}"), "alert_command_failed", status=status)
    assert capfd.readouterr().err == "why\n"


def test_it_need_not_read_what_it_gets(tmp_path: Path) -> None:
    command(tmp_path, "exec <&-").send(notice(text="x" * 2**20))


@pytest.mark.slow
def test_it_is_killed_with_what_it_started_when_its_time_is_over(tmp_path: Path) -> None:
    script = "sleep 300 & echo $! > child.new; mv child.new child; wait"
    target = command(tmp_path, script, timeout_s=2.0)
    fails(target, "alert_command_too_slow", limit_s=2.0)
    child = int((tmp_path / "child").read_text())
    wait_until(lambda: not is_running(child), LONG_S, "what it started is killed too")


def is_running(pid: int) -> bool:
    """A zombie, whose parent has not looked yet, is not."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def test_process_1_of_a_container_does_not_take_its_exit_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else Popen would say 0: nobody would be told, and it would count as told."""

    class Reaped(subprocess.Popen[bytes]):
        def communicate(self, *given: Any) -> Any:
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
            reap_orphans([])
            return super().communicate(*given)

    monkeypatch.setattr(subprocess, "Popen", Reaped)
    fails(command(tmp_path, "exit 3"), "alert_command_failed", status=3)


def test_nothing_is_reaped_while_one_is_being_started() -> None:
    with AWAITED_LOCK, subprocess.Popen(["sh", "-c", "exit 3"]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        reap_orphans([])
    assert process.returncode == 3


def test_nothing_is_left_open(tmp_path: Path) -> None:
    target = command(tmp_path, "cat > got")
    target.send(NOTICE)
    before = sorted(os.listdir("/dev/fd"))
    for _ in range(3):
        target.send(NOTICE)
    assert sorted(os.listdir("/dev/fd")) == before
