"""Who may do what in the dashboard: roles, tokens, which site a change comes from, hosts, headers."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.authentication import SimpleUser
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route
from starlette.testclient import TestClient

from sequencer.errors import ConfigurationError
from sequencer.web.access import Access, Token, Who, name_of

OPERATE, LOOK, APPEND = "o" * 24, "l" * 24, "a" * 24
BASE = "http://127.0.0.1:8080"
HERE = {"sec-fetch-site": "same-origin"}


def answer(request: Request) -> JSONResponse:
    role = getattr(request.state, "role", None)
    bodies = getattr(request.state, "shows_bodies", None)
    return JSONResponse({"role": role, "bodies": bodies, "name": name_of(request) if role else ""})


def client(who: Who | None = None, prefix: str = "", base: str = BASE, **options: Any) -> TestClient:
    routes = [Route("/{path:path}", answer, methods=["GET", "POST"])]
    who = who or Token(OPERATE, look=LOOK, append=APPEND)
    app = Starlette(routes=routes, middleware=[Middleware(Access, who=who, **options)])
    return TestClient(Starlette(routes=[Mount(prefix, app)]) if prefix else app, base, follow_redirects=False)


def program(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


@pytest.mark.parametrize(
    ("role", "method", "path", "status"),
    [
        (None, "GET", "/", 401),
        (None, "POST", "/q/orders/resume", 401),
        (None, "GET", "/live", 200),
        (None, "POST", "/ready", 401),
        ("look", "GET", "/q/orders/", 200),
        ("look", "POST", "/q/orders/resume", 403),
        ("look", "POST", "/q/orders/messages", 403),
        ("operate", "GET", "/", 200),
        ("operate", "POST", "/q/orders/resume", 200),
        ("operate", "POST", "/q/orders/messages", 200),
        ("append", "POST", "/q/orders/messages", 200),
        ("append", "GET", "/q/orders/messages", 403),
        ("append", "GET", "/metrics", 403),
        ("append", "POST", "/q/orders/resume", 403),
        ("append", "POST", "/q/a/b/messages", 403),
        ("append", "POST", "/q/orders/messages/", 403),
    ],
)
@pytest.mark.parametrize("prefix", ["", "/sequencer"])
def test_each_role_may_do_its_own(role: Any, method: str, path: str, status: int, prefix: str) -> None:
    found = client(lambda _: role, prefix).request(method, prefix + path, headers=HERE)
    assert found.status_code == status, found.text


MATRIX: list[tuple[dict[str, str], int]] = [
    ({}, 403),
    (HERE, 200),
    ({"sec-fetch-site": "same-site"}, 403),
    ({"sec-fetch-site": "cross-site"}, 403),
    ({"sec-fetch-site": "none"}, 403),
    ({"sec-fetch-site": "cross-site", "origin": BASE}, 403),
    ({"sec-fetch-site": "same-origin", "origin": "http://evil.example"}, 200),  # no page can send that pair
    ({"origin": BASE}, 200),
    ({"origin": "http://127.0.0.1:9090"}, 403),
    ({"origin": "http://evil.example"}, 403),
    ({"origin": "null"}, 403),
    ({"authorization": f"Bearer {OPERATE}"}, 200),
    ({"authorization": "Basic YTpi"}, 403),
    ({"authorization": f"Bearer {OPERATE}", "sec-fetch-site": "cross-site"}, 403),
]


@pytest.mark.parametrize(("headers", "status"), MATRIX)
def test_a_change_comes_from_our_own_pages_or_from_a_program(headers: dict[str, str], status: int) -> None:
    """Of somebody who is signed in; each row is what a browser or a program sends."""
    assert client(lambda _: "operate").post("/q/orders/resume", headers=headers).status_code == status


@pytest.mark.parametrize("prefix", ["", "/sequencer"])
@pytest.mark.parametrize(("token", "role"), [(OPERATE, "operate"), (LOOK, "look")])
def test_a_token_in_the_address_becomes_a_cookie_and_leaves_it(token: str, role: str, prefix: str) -> None:
    browser = client(prefix=prefix)
    assert browser.get(f"{prefix}/").status_code == 401
    opened = browser.get(f"{prefix}/find?q=a%20b&token={token}&x=")
    assert (opened.status_code, opened.headers["location"]) == (303, f"{prefix}/find?q=a%20b&x=")
    cookie = opened.headers["set-cookie"]
    assert cookie.startswith("sequencer_8080=")
    assert {"HttpOnly", "SameSite=lax", f"Path={prefix or '/'}"} <= set(cookie.split("; "))
    assert "Secure" not in cookie
    assert token not in cookie
    assert browser.get(f"{prefix}/").json()["role"] == role


def test_over_tls_the_cookie_is_for_tls_alone_and_named_by_its_port() -> None:
    cookie = client(base="https://example.com").get(f"/?token={OPERATE}").headers["set-cookie"]
    assert cookie.startswith("sequencer_443=")
    assert "Secure" in cookie.split("; ")


def test_an_address_cant_lead_to_another_host() -> None:
    assert client().get(f"{BASE}//evil.example/?token={OPERATE}").headers["location"] == "/evil.example/"


@pytest.mark.parametrize("given", ["", "x", APPEND, OPERATE[:-1], "\u00e9"])
def test_another_token_opens_nothing(given: str) -> None:
    found = client().get("/", params={"token": given})
    assert (found.status_code, "set-cookie" in found.headers) == (401, False)


def test_a_cookie_of_a_token_is_none_of_another_and_no_bearer() -> None:
    value = client().get(f"/?token={OPERATE}").cookies["sequencer_8080"]
    changed = client(Token("n" * 24))
    assert changed.get("/", headers={"cookie": f"sequencer_8080={value}"}).status_code == 401
    assert client().get("/", headers=program(value)).status_code == 401
    assert client().get("/", headers=program(APPEND[:-1]) | {"cookie": f"sequencer_8080={value}"}).status_code == 401


@pytest.mark.parametrize(("token", "path", "status"), [(APPEND, "/q/o/messages", 200), (LOOK, "/q/o/messages", 403)])
def test_a_program_sends_its_token_as_a_bearer(token: str, path: str, status: int) -> None:
    assert client().post(path, headers=program(token)).status_code == status


def test_tokens_are_long_and_there_is_one() -> None:
    for given in ({}, {"operate": "short"}, {"operate": OPERATE, "look": "short"}):
        with pytest.raises(ConfigurationError) as caught:
            Token(**given)
        assert caught.value.code == "token_short"


@pytest.mark.parametrize(
    ("host", "status"),
    [("localhost:1", 200), ("127.0.0.1", 200), ("[::1]:8", 200), ("Ops.example:9", 200), ("evil.example", 400)]
    + [(odd, 400) for odd in ("", "[", "127.0.0.1:99999", "localhost@evil.example", "127.0.0.1.evil.example")],
)
def test_it_is_reached_under_its_own_names_alone(host: str, status: int) -> None:
    found = client(lambda _: "look", hosts=["ops.example"]).get("/", headers={"host": host})
    assert found.status_code == status
    assert client(lambda _: "look").get("/", headers={"host": "any.example"}).status_code == 200


@pytest.mark.parametrize(
    ("role", "options", "expected"),
    [
        ("operate", {}, ("operate", True)),
        ("look", {}, ("look", False)),
        ("look", {"shows_bodies": True}, ("look", True)),
        ("operate", {"is_read_only": True}, ("look", False)),
    ],
)
def test_who_looks_sees_no_bodies(role: Any, options: dict[str, Any], expected: tuple[str, bool]) -> None:
    async def who(_: Request) -> Any:
        return role

    found = client(who, **options).get("/").json()
    assert (found["role"], found["bodies"]) == expected


def test_read_only_is_read_only_for_programs_too() -> None:
    assert client(is_read_only=True).post("/q/o/messages", headers=program(APPEND)).status_code == 401
    assert client(is_read_only=True).post("/q/o/resume", headers=program(OPERATE)).status_code == 403


def test_a_role_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigurationError) as caught:
        client(lambda _: True).get("/")  # type: ignore[arg-type, return-value]
    assert caught.value.code == "role_unknown"


@pytest.mark.parametrize(
    ("user", "name"), [(None, "operate"), (SimpleUser("ann"), "ann"), ("b\u202eob\n", "bob"), ("x" * 200, "x" * 100)]
)
def test_an_operator_is_named_by_the_application(user: Any, name: str) -> None:
    def who(request: Request) -> Any:
        request.scope["user"] = user
        return "operate"

    assert client(who).get("/").json()["name"] == name


@pytest.mark.parametrize(("path", "status"), [("/", 200), ("/", 401), ("/live", 200)])
def test_each_answer_has_the_headers_that_bind_a_browser(path: str, status: int) -> None:
    headers = client(lambda _: "look" if status == 200 else None).get(path).headers
    policy = headers["content-security-policy"].split("; ")
    assert {"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"} <= set(policy)
    assert "unsafe" not in headers["content-security-policy"]
    names = ("cache-control", "x-content-type-options", "cross-origin-opener-policy", "referrer-policy")
    assert [headers[name] for name in names] == ["no-store", "nosniff", "same-origin", "same-origin"]
