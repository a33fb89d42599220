"""Targets of alerts: where notices go, and how each type says that it took one; read from `[targets.NAME]`.

A target is made and checked here, and not reached: nothing is sent before its first notice. No error of a target or its
table holds a URL or a secret. docs/alerts.md says what each key means.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import importlib.util
import json
import logging
import os
import shlex
import shutil
import signal
import ssl
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from ...errors import ConfigurationError
from ...settings.option import declared, fields_of, option, read_table, seconds, text
from ...settings.tables import SECRET, located, table_of, value_of
from ...values.checks import check_name, nearest
from ...values.version import VERSION
from ..consumer_process import AWAITED, AWAITED_LOCK
from ..handlers.exec import REDIS_VARIABLE
from .notice import TEXT_BYTES, DeliveryFailed, Notice


@dataclass(frozen=True, slots=True, kw_only=True)
class Target(ABC):
    """Where notices go. One thread at a time sends by it."""

    name: str
    kind: str
    timeout_s: float
    """How long one attempt may take."""

    @abstractmethod
    def send(self, notice: Notice) -> None:
        """Returns once the receiver said that it has the notice. Raises DeliveryFailed."""


# -- a command ---------------------------------------------------------------------------------------------------------


def words_of(command: str, directory: Path) -> tuple[str, ...]:
    """The words of a command; no shell reads it. The first is a program: with a slash in it relative to `directory`,
    else looked up in PATH. Raises ConfigurationError.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ConfigurationError("exec_not_split", error=str(error).lower()) from error
    if not words:
        raise ConfigurationError("exec_missing")
    program = str(directory / words[0]) if "/" in words[0] else words[0]
    if (found := shutil.which(program)) is None:
        raise ConfigurationError("command_not_found", command=words[0])
    return (found, *words[1:])


@dataclass(frozen=True, slots=True, kw_only=True)
class Command(Target):
    """A command of the user's. Its standard output is dropped; its standard error is ours."""

    words: tuple[str, ...]
    directory: Path
    hidden: frozenset[str]
    """Variables that it is not given, besides the one of the server."""
    kind: str = "command"

    def send(self, notice: Notice) -> None:
        try:
            with AWAITED_LOCK:
                process = self._start(notice)
                AWAITED.add(process.pid)
        except OSError as error:
            raise DeliveryFailed("alert_command_not_run", error=error.strerror) from None
        try:
            with process:
                try:
                    process.communicate(notice.body() + b"\n", self.timeout_s)
                except subprocess.TimeoutExpired:
                    with suppress(OSError):  # it has just ended
                        os.killpg(process.pid, signal.SIGKILL)
                    raise DeliveryFailed("alert_command_too_slow", limit_s=self.timeout_s) from None
        finally:
            AWAITED.discard(process.pid)
        if process.returncode:
            raise DeliveryFailed("alert_command_failed", status=process.returncode)

    def _start(self, notice: Notice) -> subprocess.Popen[bytes]:
        hidden = {*self.hidden, REDIS_VARIABLE}
        env = {name: value for name, value in os.environ.items() if name not in hidden}
        env |= {
            "SEQUENCER_ALERT_KEY": notice.key,
            "SEQUENCER_ALERT_INCIDENT": notice.incident,
            "SEQUENCER_ALERT_WHAT": notice.what,
            "SEQUENCER_ALERT_QUEUE": notice.queue,
            "SEQUENCER_ALERT_KIND": notice.kind,
        }
        return subprocess.Popen(
            self.words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, process_group=0, cwd=self.directory, env=env
        )


# -- one POST ----------------------------------------------------------------------------------------------------------

CODE = {"feishu": "code", "dingtalk": "errcode", "wecom": "errcode"}
"""The field of an answer that is 0 where the robot took the text. Feishu is Lark, too."""
WECOM_BYTES = 2048
"""Of a text for WeCom; the others take more than TEXT_BYTES."""
MAX_ANSWER_BYTES = 64 * 1024


def split_url(text: str) -> SplitResult:
    """The parts of a URL to POST to. Raises ConfigurationError, without the URL."""
    try:
        parts = urlsplit(text)
        is_whole = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # its text may hold the URL
        is_whole = False
    if not is_whole or not text.isascii() or not text.isprintable() or " " in text:
        raise ConfigurationError("target_url_invalid")
    return parts


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook(Target):
    """A receiver that answers a POST. It follows no redirect, and knows no proxy."""

    url: SplitResult = field(repr=False)
    kind: str = "webhook"

    def send(self, notice: Notice) -> None:
        self._post(notice.body(), {"Idempotency-Key": notice.key})

    def _post(self, body: bytes, headers: dict[str, str]) -> bytes:
        """The answer. Raises DeliveryFailed where its status is no success."""
        kind = HTTPSConnection if self.url.scheme == "https" else HTTPConnection
        connection = kind(self.url.hostname or "", self.url.port, timeout=self.timeout_s)
        path = (self.url.path or "/") + (f"?{self.url.query}" if self.url.query else "")
        headers |= {"Content-Type": "application/json", "User-Agent": f"sequencer/{VERSION}"}
        if self.url.username or self.url.password:
            words = f"{unquote(self.url.username or '')}:{unquote(self.url.password or '')}"
            headers["Authorization"] = f"Basic {base64.b64encode(words.encode()).decode()}"
        try:
            connection.request("POST", path, body, headers)
            with connection.getresponse() as response:
                if not 200 <= response.status < 300:
                    raise DeliveryFailed("alert_status", status=response.status)
                return response.read(MAX_ANSWER_BYTES)
        except (OSError, HTTPException) as error:
            raise _failed(error) from None
        finally:
            connection.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Robot(Webhook):
    """A robot in a chat, which takes a text. It answers 200 also when it refuses, so its code counts.

    It is not left to apprise: 2.3 believes the status of DingTalk and WeCom, and can't sign for Feishu.
    """

    secret: str | None = field(default=None, repr=False)

    def send(self, notice: Notice) -> None:
        """Only the code of a refusal is reported: the rest may repeat the secret."""
        text = notice.chat_text(WECOM_BYTES if self.kind == "wecom" else TEXT_BYTES)
        said, name = self._post(json.dumps(self.request(text, time.time())).encode(), {}), CODE[self.kind]
        try:
            code = json.loads(said)[name]
        except (ValueError, RecursionError, LookupError, TypeError):
            code = None
        if type(code) is not int:
            raise DeliveryFailed("alert_answer_unreadable", name=name)
        if code:
            raise DeliveryFailed("alert_refused", name=name, number=code)

    def request(self, text: str, at: float) -> dict[str, Any]:
        """What the robot is sent at this second since 1970."""
        if self.kind != "feishu":
            return {"msgtype": "text", "text": {"content": text}}
        body = {"msg_type": "text", "content": {"text": text}}
        if self.secret is None:
            return body
        digest = hmac.new(f"{int(at)}\n{self.secret}".encode(), b"", "sha256").digest()
        return {**body, "timestamp": str(int(at)), "sign": base64.b64encode(digest).decode()}


def _failed(error: Exception) -> DeliveryFailed:
    """Without what may hold a part of the URL."""
    if isinstance(error, TimeoutError):
        return DeliveryFailed("alert_not_answered")
    if isinstance(error, ssl.SSLCertVerificationError):
        return DeliveryFailed("alert_certificate_refused", error=error.verify_message)
    return DeliveryFailed("alert_not_posted", error=getattr(error, "strerror", None) or type(error).__name__)


# -- apprise -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ByApprise(Target):
    """A service that apprise knows: mail, Slack, Teams, PagerDuty and many more. The first notice imports it.

    It logs URLs and keys, and so do the libraries below it: what is logged in the thread that sends is dropped.
    """

    url: str = field(repr=False)
    kind: str = "apprise"

    def send(self, notice: Notice) -> None:
        """A failure can't say why: apprise tells that its log only, with keys."""
        with nothing_logged():
            import apprise

            service: Any = apprise.Apprise.instantiate(self.url, suppress_exceptions=True)
            if service is None:
                raise DeliveryFailed("apprise_url_refused")
            service.socket_connect_timeout = service.socket_read_timeout = self.timeout_s
            service.request_rate_per_sec = 0
            if service.secure_protocol == "pagerduty":  # whose own key would be made of the text
                service.dedup, service.action = hashlib.sha256(notice.incident.encode()).hexdigest(), "map"
            title, *lines = notice.chat_text(min(TEXT_BYTES, service.body_maxlen)).split("\n")
            kinds = {"resolved": apprise.NotifyType.SUCCESS, "test": apprise.NotifyType.INFO}
            is_taken = service.notify(
                title=title,
                body="\n".join(lines),
                notify_type=kinds.get(notice.what, apprise.NotifyType.FAILURE),
                body_format=apprise.NotifyFormat.TEXT,
            )
        if not is_taken:
            raise DeliveryFailed("apprise_failed")


@contextmanager
def nothing_logged() -> Iterator[None]:
    """Within, the handlers of the log drop what this thread says."""
    own, handlers = threading.get_ident(), [*logging.getLogger().handlers]

    def is_of_others(record: logging.LogRecord) -> bool:
        return record.thread != own

    for handler in handlers:
        handler.addFilter(is_of_others)
    try:
        yield
    finally:
        for handler in handlers:
            handler.removeFilter(is_of_others)


# -- the table of a target ---------------------------------------------------------------------------------------------

MAX_TIMEOUT_S = 8.0
"""Of one attempt: two of them fit into the time that a sender has for a notice."""
TYPES = {
    "webhook": ("url",),
    "command": ("exec",),
    "feishu": ("url", "secret"),
    **dict.fromkeys(("dingtalk", "wecom", "apprise"), ("url",)),
}
"""What each takes beside `timeout`."""
ROBOTS_OF_APPRISE = {"dingtalk": "dingtalk", "wecombot": "wecom"}
"""Schemes with which apprise would say success where there is none, and our types for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetTable:
    """`[targets.NAME]`."""

    type: str = option(text(), "", "webhook, command, feishu, dingtalk, wecom or apprise.", ("run",))
    url: str | None = option(
        text("text", is_secret=True), None, "Where messages are sent; env:NAME reads it from a variable.", ("run",)
    )
    secret: str | None = option(
        text("text", is_secret=True), None, "feishu: secret that signs the messages, as env:NAME.", ("run",)
    )
    exec: str | None = option(text("a command"), None, "command: command to run for each message.", ("run",))
    timeout_s: float = option(seconds(0.1, MAX_TIMEOUT_S), 5.0, "How long one attempt may take.", ("run",))


def read_target(name: str, table: Any, *, directory: Path = Path(), hidden: Collection[str] = ()) -> Target:
    """The target that a table of the file describes. Raises ConfigurationError, without a secret.

    `directory`: of the file; a command runs there. `hidden`: variables that a command is not given: those that the file
    names (`variables_in` of `settings/tables.py`).
    """
    table = table_of(f"targets.{name}", table)
    with located(f"targets.{name}"):
        check_name("target", name)
        given = fields_of(TargetTable, read_table(table, declared(TargetTable)))
        return _made(name, TargetTable(**given), directory, frozenset(hidden))


def _made(name: str, table: TargetTable, directory: Path, hidden: frozenset[str]) -> Target:
    kind, timeout_s = table.type, table.timeout_s
    if kind not in TYPES:
        code = "name_unknown" if kind else "type_missing"
        raise ConfigurationError(code, kind="type", name=kind, **nearest(kind or "", TYPES))
    for word in ("exec", "url", "secret"):
        if getattr(table, word) is not None and word not in TYPES[kind]:
            raise ConfigurationError("key_not_taken", type=kind, name=word)
    if kind == "command":
        words = words_of(table.exec or "", directory)
        return Command(name=name, words=words, directory=directory, hidden=hidden, timeout_s=timeout_s)
    url = _url(table)
    if kind == "apprise":
        _check_apprise(url)
        return ByApprise(name=name, url=url, timeout_s=timeout_s)
    if kind == "webhook":
        return Webhook(name=name, url=split_url(url), timeout_s=timeout_s)
    secret = None if table.secret is None else _secret("secret", table.secret)
    return Robot(name=name, kind=kind, url=split_url(url), secret=secret, timeout_s=timeout_s)


def _url(table: TargetTable) -> str:
    """The URL. It stands in the file only where nothing in it looks like a secret."""
    url = table.url or ""
    if url and table.type == "webhook" and not url.startswith(SECRET):
        parts = split_url(url)
        if not (parts.username or parts.password or parts.query):
            return url
    return _secret("url", url)


def _secret(word: str, text: str) -> str:
    """The value of a variable; what stands in the file itself is not taken, and not shown."""
    if not text.startswith(SECRET):
        raise ConfigurationError("secret_in_file", name=word)
    value, variable = value_of(word, text), text.removeprefix(SECRET)
    if not value or value != value.strip():
        raise ConfigurationError("variable_blank", name=word, variable=variable)
    return value


def _check_apprise(url: str) -> None:
    if importlib.util.find_spec("apprise") is None:
        raise ConfigurationError("apprise_missing")
    scheme, found, _ = url.partition("://")
    if not found:
        raise ConfigurationError("apprise_url_refused")
    if kind := ROBOTS_OF_APPRISE.get(scheme.lower()):
        raise ConfigurationError("robot_of_apprise", type=kind)
