"""A JSON webhook, signed; and the POST that it, chats and pagers use: one time limit for all of it, no redirects.

A receiver checks `Sequencer-Signature` as README.md shows. `http.client` counts a time limit anew with each byte that
comes, so its socket is replaced by one that knows when everything must be over.
"""

from __future__ import annotations

import base64
import hmac
import io
import re
import socket
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from ....errors import ConfigurationError
from ....texts.words import error_text
from ....values.version import VERSION
from ..notice import DeliveryFailed, Notice

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

MAX_ANSWER_BYTES = 64 * 1024
"""Of an answer that is read."""
SECRET_CHARACTERS = 8
"""A part of a URL with so many may be a token: it is hidden in what a receiver says."""
_NOT_OF_A_URL = re.compile(r"[^!-~]")


class HookUrl:
    """A URL to POST to. Its `repr` is empty: it may hold a token."""

    def __init__(self, text: str) -> None:
        """Raises ConfigurationError, without the URL."""
        parts = _split(text)
        self.is_https, self.host = parts.scheme == "https", parts.hostname or ""
        self.port = parts.port or (443 if self.is_https else 80)
        self._path, self._query = parts.path or "/", parts.query
        self.is_plain = not (parts.username or parts.password or parts.query)
        """No user, password or query, so perhaps no secret."""
        self.headers: dict[str, str] = {}
        if parts.username or parts.password:
            words = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
            self.headers["Authorization"] = f"Basic {base64.b64encode(words.encode()).decode()}"
        pieces = re.split(r"[/?&=;,]", f"{parts.path}?{parts.query}")
        pieces += [one for one in (parts.username, parts.password) if one]
        tokens = {one for piece in pieces for one in (piece, unquote(piece)) if len(one) >= SECRET_CHARACTERS}
        self.secrets = tuple(sorted({text, self.host, *tokens}, key=len, reverse=True))
        """What no text may show, the longest first."""

    def __repr__(self) -> str:
        return "HookUrl()"

    def path(self, behind: str = "") -> str:
        """The path with its query. `behind`: more of both, as in `/close` or `?sign=...`."""
        path, _, query = behind.partition("?")
        both = "&".join(filter(None, [self._query, query]))
        return f"{self._path}{path}{'?' if both else ''}{both}"


def _split(text: str) -> SplitResult:
    if _NOT_OF_A_URL.search(text):
        raise ConfigurationError("url has a character that a URL can't have, such as a space")
    try:
        parts = urlsplit(text)
        is_whole = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # its text may hold the URL
        is_whole = False
    if not is_whole:
        raise ConfigurationError("url must begin with https://HOST or http://HOST, with a port from 1 to 65535 if any")
    return parts


class Answer(NamedTuple):
    """What a receiver said."""

    status: int
    body: bytes


def post(
    url: HookUrl, body: bytes, headers: Mapping[str, str], timeout_s: float, *, behind: str = "", reads: bool = False
) -> Answer:
    """POST, within `timeout_s` for everything. `behind`: as in `HookUrl.path`. `reads`: the body of the answer too.

    Raises DeliveryFailed.
    """
    until = time.monotonic() + timeout_s
    connection = _Connection(url, until)
    try:
        own = {"Content-Type": "application/json", "User-Agent": f"sequencer/{VERSION}", "Connection": "close"}
        connection.request("POST", url.path(behind), body, {**own, **url.headers, **headers})
        response = connection.getresponse()
        return Answer(response.status, response.read(MAX_ANSWER_BYTES) if reads else b"")
    except (OSError, HTTPException) as error:
        raise DeliveryFailed(hidden(_reason(error, timeout_s), url.secrets)) from None
    finally:
        connection.close()
        connection.end()


def hidden(text: str, secrets: tuple[str, ...]) -> str:
    """The text in one line without these, for what others say."""
    for secret in secrets:
        text = text.replace(secret, "***")
    return error_text(text)


def status_text(status: int) -> str:
    """What an HTTP status that is no success means for a target."""
    if 300 <= status < 400:
        return f"it answered {status}, a redirect, and that is not followed; write the URL to which it leads"
    names = {one.value: f" ({one.phrase})" for one in HTTPStatus}
    return f"it answered {status}{names.get(status, '')}"


def _reason(error: Exception, timeout_s: float) -> str:
    match error:
        case TimeoutError():
            return f"no answer within {timeout_s:g} s"
        case socket.gaierror():
            return "the name of its host can't be resolved"
        case ssl.SSLCertVerificationError():
            return f"its certificate is refused: {error.verify_message}"
        case ssl.SSLError():
            return f"TLS failed: {error.reason or type(error).__name__}"
        case ConnectionRefusedError():
            return "the connection is refused"
        case ConnectionError():
            return "the connection was closed without an answer"
        case OSError():
            return error.strerror or type(error).__name__
    return f"what it answered is no HTTP ({type(error).__name__})"


class _Connection(HTTPConnection):
    """Made anew for each POST. It does not follow redirects, and knows no proxy."""

    def __init__(self, url: HookUrl, until: float) -> None:
        super().__init__(url.host, url.port)
        self.default_port = 443 if url.is_https else 80  # which is not named in the header `Host`
        self._url, self._until = url, until
        self._opened: socket.socket | None = None

    def connect(self) -> None:
        self._opened = sock = _connected(self._url, self._until)
        if self._url.is_https:
            sock.settimeout(_left_s(self._until))
            self._opened = sock = ssl.create_default_context().wrap_socket(sock, server_hostname=self._url.host)
        self.sock = _TimedSocket(sock, self._until)

    def end(self) -> None:
        """Close the socket. (`close` is also called by the library, before the body of an answer is read.)"""
        if self._opened is not None:
            self._opened.close()


def _connected(url: HookUrl, until: float) -> socket.socket:
    """To the first address that answers; none of them may take all the time."""
    found = socket.getaddrinfo(url.host, url.port, type=socket.SOCK_STREAM)
    for number, (family, kind, protocol, _, address) in enumerate(found):
        sock = socket.socket(family, kind, protocol)
        try:
            sock.settimeout(_left_s(until) / (len(found) - number))
            sock.connect(address)
            return sock
        except OSError:
            sock.close()
            if number == len(found) - 1:
                raise
    raise OSError("its host has no address")


def _left_s(until: float) -> float:
    if (left := until - time.monotonic()) <= 0:
        raise TimeoutError
    return left


class _TimedSocket:
    """What `http.client` uses of a socket; each wait ends at one and the same time."""

    def __init__(self, sock: socket.socket, until: float) -> None:
        self._sock, self._until = sock, until

    def sendall(self, data: ReadableBuffer) -> None:
        rest = memoryview(data)
        while rest:
            self._sock.settimeout(_left_s(self._until))
            rest = rest[self._sock.send(rest) :]

    def receive(self, buffer: WriteableBuffer) -> int:
        self._sock.settimeout(_left_s(self._until))
        return self._sock.recv_into(buffer)

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Received(self))

    def close(self) -> None:
        """Not yet: `end` of the connection does that."""


class _Received(io.RawIOBase):
    """The bytes that come, for `http.client`."""

    def __init__(self, sock: _TimedSocket) -> None:
        self._sock = sock

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        return self._sock.receive(buffer)


def signature(secret: str, timestamp: int, body: bytes) -> str:
    """Of a body that is sent at this second since 1970: `v1=` and the hex digits of HMAC-SHA256."""
    return f"v1={hmac.new(secret.encode(), f'{timestamp}.'.encode() + body, 'sha256').hexdigest()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """A receiver of ours: it gets the notice as JSON, and takes it by a status from 200 to 299."""

    name: str
    url: HookUrl
    secret: str | None = field(repr=False)
    timeout_s: float
    kind: str = "webhook"

    def send(self, notice: Notice) -> None:
        """Raises DeliveryFailed."""
        body, timestamp = notice.body(), int(time.time())
        headers = {"Idempotency-Key": notice.key, "Sequencer-Timestamp": str(timestamp)}
        if self.secret is not None:
            headers["Sequencer-Signature"] = signature(self.secret, timestamp, body)
        status = post(self.url, body, headers, self.timeout_s).status
        if not 200 <= status < 300:
            raise DeliveryFailed(status_text(status))
