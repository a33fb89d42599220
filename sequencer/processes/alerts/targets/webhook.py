"""What is sent by one POST: a notice as JSON to a receiver of the user's, or as text to a robot in a chat.

The robots answer 200 also when they refuse, so their code counts. apprise 2.3 believes the status of DingTalk and
WeCom, and can't sign for Feishu.
"""

from __future__ import annotations

import base64
import hmac
import json
import socket
import ssl
import time
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, Literal
from urllib.parse import SplitResult, unquote, urlsplit

from ....errors import ConfigurationError
from ....values.version import VERSION
from ..notice import TEXT_BYTES, DeliveryFailed, Notice

RobotKind = Literal["feishu", "dingtalk", "wecom"]
CODE: dict[RobotKind, str] = {"feishu": "code", "dingtalk": "errcode", "wecom": "errcode"}
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
        raise ConfigurationError("url must begin with https://HOST or http://HOST, and have no spaces")
    return parts


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """A receiver that answers a POST. It follows no redirect, and knows no proxy."""

    name: str
    url: SplitResult = field(repr=False)
    timeout_s: float
    """Of each wait for the receiver."""
    kind: str = "webhook"

    def send(self, notice: Notice) -> None:
        """Raises DeliveryFailed."""
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
                    raise DeliveryFailed(f"it answered {response.status}")
                return response.read(MAX_ANSWER_BYTES)
        except (OSError, HTTPException) as error:
            raise DeliveryFailed(_reason(error)) from None
        finally:
            connection.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Robot(Webhook):
    """A robot in a chat, which takes a text."""

    kind: RobotKind
    secret: str | None = field(default=None, repr=False)
    """By which a text for Feishu is signed."""

    def send(self, notice: Notice) -> None:
        """Raises DeliveryFailed, with the code of a refusal; what the robot says besides may repeat the secret."""
        text = notice.chat_text(WECOM_BYTES if self.kind == "wecom" else TEXT_BYTES)
        said = self._post(json.dumps(self.request(text, time.time())).encode(), {})
        try:
            answer: Any = json.loads(said)
        except (ValueError, RecursionError):
            answer = None
        code = answer.get(CODE[self.kind]) if isinstance(answer, dict) else None
        if type(code) is not int:
            raise DeliveryFailed(f"its answer has no {CODE[self.kind]}")
        if code:
            raise DeliveryFailed(f"it refused: {CODE[self.kind]} {code}")

    def request(self, text: str, at: float) -> dict[str, Any]:
        """What the robot is sent at this second since 1970."""
        if self.kind != "feishu":
            return {"msgtype": "text", "text": {"content": text}}
        body = {"msg_type": "text", "content": {"text": text}}
        if self.secret is None:
            return body
        digest = hmac.new(f"{int(at)}\n{self.secret}".encode(), b"", "sha256").digest()
        return {**body, "timestamp": str(int(at)), "sign": base64.b64encode(digest).decode()}


def _reason(error: Exception) -> str:
    """Without what may hold a part of the URL."""
    match error:
        case TimeoutError():
            return "it did not answer in time"
        case socket.gaierror():
            return "the name of its host can't be resolved"
        case ssl.SSLCertVerificationError():
            return f"its certificate is refused: {error.verify_message}"
        case OSError():
            return error.strerror or type(error).__name__
    return f"what it answered is no HTTP ({type(error).__name__})"
