"""Who may do what in the dashboard: roles, tokens, which site a change comes from, hosts, headers."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.authentication import SimpleUser
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route
from starlette.testclient import TestClient

from sequencer.errors import ConfigurationError
from sequencer.web.access import LOOPBACK, Access, Token, Who, name_of
from tests.support.refused import refused

OPERATE, LOOK, APPEND = "o" * 24, "l" * 24, "a" * 24
BASE, EVIL = "http://127.0.0.1:8080", "http://evil.example"
HERE, ELSEWHERE = {"sec-fetch-site": "same-origin"}, {"sec-fetch-site": "cross-site"}
RESUME, MESSAGES = "/q/orders/resume", "/q/orders/messages"


def answer(request: Request) -> JSONResponse:
    state = request.scope.get("state", {})  # empty for what is open to anybody
    name = name_of(request) if state else ""
    return JSONResponse({"role": state.get("role"), "bodies": state.get("shows_bodies"), "name": name})


def client(who: Who | None = None, prefix: str = "", base: str = BASE, **options: Any) -> TestClient:
    routes = [Route("/{path:path}", answer, methods=["GET", "POST"])]
    who = who or Token(OPERATE, look=LOOK, append=APPEND)
    app = Starlette(routes=routes, middleware=[Middleware(BaseHTTPMiddleware, dispatch=Access(who, **options))])
    return TestClient(Starlette(routes=[Mount(prefix, app)]) if prefix else app, base, follow_redirects=False)


def program(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


@pytest.mark.parametrize(
    ("role", "method", "path", "status"),
    [
        *((None, method, path, 401) for method, path in (("GET", "/"), ("POST", RESUME), ("POST", "/ready"))),
        (None, "GET", "/live", 200),
        ("look", "GET", "/q/orders/", 200),
        *(("look", "POST", path, 403) for path in (RESUME, MESSAGES)),
        *(("operate", method, path, 200) for method, path in (("GET", "/"), ("POST", RESUME), ("POST", MESSAGES))),
        ("append", "POST", MESSAGES, 200),
        *(("append", "GET", path, 403) for path in (MESSAGES, "/metrics")),
        *(("append", "POST", path, 403) for path in (RESUME, "/q/a/b/messages", f"{MESSAGES}/")),
    ],
)
@pytest.mark.parametrize("prefix", ["", "/sequencer"])
def test_each_role_may_do_its_own(role: Any, method: str, path: str, status: int, prefix: str) -> None:
    found = client(lambda _: role, prefix).request(method, prefix + path, headers=HERE)
    assert found.status_code == status, found.text
    assert found.headers["cache-control"] == "no-store"
    assert {"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"} <= {
        *found.headers["content-security-policy"].split("; ")
    }


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 403),
        (HERE, 200),
        *(({"sec-fetch-site": site}, 403) for site in ("same-site", "cross-site", "none")),
        (ELSEWHERE | {"origin": BASE}, 403),
        ({"origin": BASE}, 200),
        *(({"origin": origin}, 403) for origin in ("http://127.0.0.1:9090", EVIL, "null")),
        (program(OPERATE), 200),
        ({"authorization": "Basic YTpi"}, 403),
        (program(OPERATE) | ELSEWHERE, 403),
    ],
)
def test_a_change_comes_from_our_own_pages_or_from_a_program(headers: dict[str, str], status: int) -> None:
    """Of somebody who is signed in; each row is what a browser or a program sends."""
    assert client(lambda _: "operate").post(RESUME, headers=headers).status_code == status


@pytest.mark.parametrize("prefix", ["", "/sequencer"])
@pytest.mark.parametrize(("base", "is_tls", "port"), [(BASE, False, 8080), ("https://example.com", True, 443)])
def test_a_token_in_the_address_becomes_a_cookie_and_leaves_it(base: str, is_tls: bool, port: int, prefix: str) -> None:
    for token, role in ((OPERATE, "operate"), (LOOK, "look")):
        browser = client(prefix=prefix, base=base)
        opened = browser.get(f"{prefix}/find?q=a%20b&token={token}&x=")
        assert (opened.status_code, opened.headers["location"]) == (303, f"{prefix}/find?q=a+b&x=")
        name, *words = opened.headers["set-cookie"].split("; ")
        assert name.startswith(f"sequencer_{port}=")
        assert {"HttpOnly", "SameSite=lax", f"Path={prefix or '/'}"} <= {*words}
        assert ("Secure" in words, token in name) == (is_tls, False)
        assert browser.get(f"{prefix}/").json()["role"] == role
    assert client().get(f"{BASE}//evil.example/?token={OPERATE}").headers["location"] == "/evil.example/"


def test_another_secret_opens_nothing() -> None:
    for given in ("", "x", APPEND, OPERATE[:-1], "\u00e9"):
        found = client().get("/", params={"token": given})
        assert (found.status_code, "set-cookie" in found.headers) == (401, False)
    value = client().get(f"/?token={OPERATE}").cookies["sequencer_8080"]
    cookie = {"cookie": f"sequencer_8080={value}"}
    assert client().get("/", headers=cookie).status_code == 200
    assert client(Token("n" * 24)).get("/", headers=cookie).status_code == 401
    for headers in (program(value), program(APPEND[:-1]) | cookie):
        assert client().get("/", headers=headers).status_code == 401
    for wrong in ({}, {"operate": "short"}, {"operate": OPERATE, "look": "short"}):
        with refused(ConfigurationError, "token_short"):
            Token(**wrong)


@pytest.mark.parametrize(
    ("host", "status"),
    [("localhost:1", 200), ("127.0.0.1", 200), ("[::1]:8", 200), ("Ops.example:9", 200), ("evil.example", 400)]
    + [(odd, 400) for odd in ("", "[", "127.0.0.1:99999", "localhost@evil.example", "127.0.0.1.evil.example")],
)
def test_it_is_reached_under_its_own_names_alone(host: str, status: int) -> None:
    hosts = LOOPBACK | {"ops.example"}
    assert client(lambda _: "look", hosts=hosts).get("/", headers={"host": host}).status_code == status
    assert client(lambda _: "look").get("/", headers={"host": "any.example"}).status_code == 200


def test_who_looks_sees_no_bodies_and_an_operator_is_named_by_the_application() -> None:
    def seen(role: Any, user: Any = None, **options: Any) -> Any:
        async def who(request: Request) -> Any:
            request.scope["user"] = user
            return role

        answer = client(who, **options).get("/")
        return answer.status_code if answer.status_code != 200 else tuple(answer.json().values())

    assert [seen(role) for role in (True, "look", "operate")] == [
        403,
        ("look", False, "look"),
        ("operate", True, "operate"),
    ]
    assert seen("look", shows_bodies=True) == ("look", True, "look")
    named = [seen("look", user)[2] for user in (SimpleUser("ann"), "b\u202eob\n", "x" * 200)]
    assert named == ["ann", "bob", "x" * 100]
