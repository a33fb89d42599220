"""Who may do what in the dashboard, and what a browser may be made to do with it.

One function, `who`, is asked at each request. It stands before every route, so a new page is closed until this file
says otherwise. It knows nothing of queues.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from inspect import isawaitable
from typing import Any, Literal
from urllib.parse import urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.middleware.base import RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response

from ..errors import ConfigurationError
from ..texts.refusals import refusal_text

Role = Literal["operate", "look", "append"]
"""What someone may do: everything on the pages; see them; append messages over HTTP and nothing else."""
Who = Callable[[Request], Role | Awaitable[Role | None] | None]
"""The role of the sender of a request, or None; sync (it runs in a thread) or async."""

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
LEAST_TOKEN = 16
_OPEN = frozenset({"/live", "/ready"})
_APPEND = re.compile(r"/q/[^/]+/messages")
_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "cross-origin-opener-policy": "same-origin",
    "referrer-policy": "same-origin",  # with no-referrer, a browser sends `Origin: null` with our own forms
}


class Token:
    """A `who` for those who have a token: `dashboard(who=Token(os.environ["DASHBOARD_TOKEN"]))`.

    `operate`, `look`, `append`: the token of each role, at least 16 characters. A browser opens `/?token=...` once: it
    gets a cookie, and the token leaves the address. A program sends `Authorization: Bearer ...`; a token for appending
    works only there. Raises ConfigurationError for a short token, or none.
    """

    def __init__(self, operate: str = "", *, look: str = "", append: str = "") -> None:
        given: dict[Role, str] = {"operate": operate, "look": look, "append": append}
        self._tokens = {role: token.encode() for role, token in given.items() if token}
        if not self._tokens or any(len(token) < LEAST_TOKEN for token in self._tokens.values()):
            raise ConfigurationError("token_short", least=LEAST_TOKEN)
        # The cookie of a token can't be sent as the token, nor is it one after the token was changed.
        self._cookies: dict[Role, bytes] = {
            role: hmac.new(token, b"sequencer dashboard", hashlib.sha256).hexdigest().encode()
            for role, token in self._tokens.items()
            if role != "append"
        }

    def __call__(self, request: Request) -> Role | None:
        if (given := bearer(request)) is not None:
            return _fitting(self._tokens, given)
        return _fitting(self._cookies, request.cookies.get(_cookie_name(request), ""))

    def opened(self, request: Request) -> Response | None:
        """Where the address has the right token: the same one without it, with a cookie."""
        role = _fitting(self._tokens, request.query_params.get("token", ""))
        if role not in self._cookies:
            return None
        url = request.url.remove_query_params("token")
        # One slash: an address that begins with two would be another host's.
        answer = RedirectResponse(f"/{url.path.lstrip('/')}?{url.query}".rstrip("?"), 303)
        answer.set_cookie(
            _cookie_name(request),
            self._cookies[role].decode(),
            path=request.scope.get("root_path") or "/",
            secure=request.url.scheme == "https",
            httponly=True,
            samesite="lax",  # with strict, a link from a chat would find nobody signed in
        )
        return answer


@dataclass(frozen=True)
class Access:
    """Asked at each request: sets `request.state.role` and `.shows_bodies`, or answers in place of the page.

    `hosts`: the names under which it may be reached; None: the application that it is mounted in checks that.
    """

    who: Who
    hosts: frozenset[str] | None = None
    shows_bodies: bool = False

    async def __call__(self, request: Request, call_next: RequestResponseEndpoint) -> Response:
        answer = await self._answer(request) or await call_next(request)
        for name, value in _HEADERS.items():
            answer.headers.setdefault(name, value)
        return answer

    async def _answer(self, request: Request) -> Response | None:
        (host, _), path, is_safe = _host_of(request), _path(request), request.method in ("GET", "HEAD")
        is_append = request.method == "POST" and bool(_APPEND.fullmatch(path))
        refused = partial(_refused, is_append)
        if self.hosts is not None and host not in self.hosts:
            return refused(400, "host_unknown", host=host)
        if path in _OPEN and is_safe:
            return None
        if isinstance(self.who, Token) and is_safe and (opened := self.who.opened(request)):
            return opened
        found: Any = await run_in_threadpool(self.who, request)
        role = await found if isawaitable(found) else found
        if role is None:
            return refused(401, "access_denied")
        needed = {"operate", "append" if is_append else "look" if is_safe else "operate"}
        if role not in needed:
            return refused(403, "role_insufficient", role=role, needed=sorted(needed))
        if not (is_safe or is_own(request)):
            return refused(403, "request_not_ours")
        request.state.role, request.state.shows_bodies = role, role == "operate" or self.shows_bodies
        return None


def bearer(request: Request) -> str | None:
    """The token of a program, if it sent one."""
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else None


def is_own(request: Request) -> bool:
    """Whether a page of this dashboard sent it, or a program with a bearer token, which no other site can attach.

    A browser names the site it comes from: `Sec-Fetch-Site` where it trusts the connection, else `Origin` at least.
    """
    if site := request.headers.get("sec-fetch-site"):
        return site == "same-origin"
    if origin := request.headers.get("origin"):
        return origin.partition("://")[2].lower() == request.headers.get("host", "").lower() != ""
    return bearer(request) is not None


def name_of(request: Request) -> str:
    """Who sent it, as far as the application that the dashboard is part of says (`scope["user"]`), else the role."""
    user = request.scope.get("user")
    name = getattr(user, "display_name", "") or ("" if user is None else str(user))
    return "".join(filter(str.isprintable, name))[:100] or str(request.state.role)


def _path(request: Request) -> str:
    """Inside of the dashboard, as its router reads it."""
    path, root = request.scope["path"], request.scope.get("root_path", "")
    return str(path[len(root) :] if path == root or path.startswith(f"{root}/") else path)


def _refused(is_append: bool, status: int, code: str, **fields: Any) -> Response:
    """As text; to a program that appends as JSON, like each refusal of an append."""
    text, headers = refusal_text(code, fields), {"www-authenticate": "Bearer"} if status == 401 else None
    if is_append:
        return JSONResponse({"code": code, "text": text, "fields": fields}, status, headers)
    return PlainTextResponse(text, status, headers)


def _host_of(request: Request) -> tuple[str, int | None]:
    try:
        parts = urlsplit(f"//{request.headers.get('host', '')}")
        return parts.hostname or "", parts.port
    except ValueError:
        return "", None


def _cookie_name(request: Request) -> str:
    """By port: a browser sends the cookies of a host to each of its ports."""
    return f"sequencer_{_host_of(request)[1] or (443 if request.url.scheme == 'https' else 80)}"


def _fitting(secrets: dict[Role, bytes], given: str) -> Role | None:
    """Whose secret it is; all are compared, in a time that says nothing of them."""
    fitting = [role for role, secret in secrets.items() if hmac.compare_digest(secret, given.encode())]
    return fitting[0] if fitting else None
