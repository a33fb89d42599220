"""Chats whose robots answer 200 also when they refuse: Feishu, Lark, DingTalk, WeCom. Their answer's code is read.

Each has a webhook with its token in the URL, and takes a text. None of them knows a key by which it would find a
repeat: after a crash of the sender a message may show twice.
"""

from __future__ import annotations

import base64
import hmac
import json
import time
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple
from urllib.parse import urlencode

from ..notice import TEXT_BYTES, DeliveryFailed, Notice
from .webhook import Answer, HookUrl, hidden, post, status_text

ChatKind = Literal["feishu", "lark", "dingtalk", "wecom"]
TAKES_SECRET = ("feishu", "lark", "dingtalk")
"""WeCom has no signature: the key in its URL is all."""
MOST_BYTES = {"wecom": 2048}
"""Of a text, where it is less than TEXT_BYTES."""
_FEISHU, _OTHERS = (("code", "msg"), ("StatusCode", "StatusMessage")), (("errcode", "errmsg"),)
CODES: dict[ChatKind, tuple[tuple[str, str], ...]] = {
    "feishu": _FEISHU,
    "lark": _FEISHU,
    "dingtalk": _OTHERS,
    "wecom": _OTHERS,
}
"""Where an answer says how it went and why: the first pair that it has counts; old robots of Feishu have the second."""


class Request(NamedTuple):
    """What a chat is sent."""

    body: dict[str, Any]
    behind: str = ""
    """Behind the URL."""


def request(kind: ChatKind, text: str, secret: str | None, at: float) -> Request:
    """`at`: seconds since 1970; both signatures hold for an hour."""
    if kind in ("feishu", "lark"):
        body: dict[str, Any] = {"msg_type": "text", "content": {"text": text}}
        if secret is not None:
            seconds = str(int(at))
            body |= {"timestamp": seconds, "sign": _sign(f"{seconds}\n{secret}", "")}
        return Request(body)
    body = {"msgtype": "text", "text": {"content": text}}
    if kind == "wecom" or secret is None:
        return Request(body)
    milliseconds = str(int(at * 1000))
    query = {"timestamp": milliseconds, "sign": _sign(secret, f"{milliseconds}\n{secret}")}
    return Request(body, f"?{urlencode(query)}")


def _sign(key: str, text: str) -> str:
    return base64.b64encode(hmac.new(key.encode(), text.encode(), "sha256").digest()).decode()


def refusal(kind: ChatKind, answer: Answer) -> str:
    """Why the chat did not take it, by its own words; "" where it did."""
    try:
        said: Any = json.loads(answer.body)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        return f"{status_text(answer.status)}, without the JSON of its success"
    for code, text in CODES[kind]:
        if code in said:
            is_taken = said[code] == 0 and type(said[code]) is int and 200 <= answer.status < 300
            return "" if is_taken else f"it refused: {code} {said[code]!r}: {said.get(text, '')}"
    return f"{status_text(answer.status)}, without {CODES[kind][0][0]} = 0, which says success"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """A robot in a chat."""

    name: str
    kind: ChatKind
    url: HookUrl
    secret: str | None = field(repr=False)
    timeout_s: float

    def send(self, notice: Notice) -> None:
        """Raises DeliveryFailed, with the code and the text of the refusal."""
        text = notice.chat_text(MOST_BYTES.get(self.kind, TEXT_BYTES))
        body, behind = request(self.kind, text, self.secret, time.time())
        answer = post(self.url, json.dumps(body).encode(), {}, self.timeout_s, behind=behind, reads=True)
        if said := refusal(self.kind, answer):
            raise DeliveryFailed(hidden(said, (*self.url.secrets, *([self.secret] if self.secret else []))))
