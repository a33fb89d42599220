"""The dashboard under a prefix in the applications that it is mounted in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import django
import httpx2
import pytest
from a2wsgi import ASGIMiddleware
from django.conf import settings
from fastapi import FastAPI
from flask import Flask
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient
from werkzeug.middleware.dispatcher import DispatcherMiddleware

from sequencer.web import Token, dashboard
from tests.support.handling import Make, fail

PREFIX, TOKEN, BASE = "/ops/sequencer", "a-token-of-the-tests", "http://127.0.0.1:8080"


def configured() -> None:
    if not settings.configured:
        settings.configure(SECRET_KEY="x", ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__)
        django.setup()


def in_fastapi(app: Any) -> httpx2.Client:
    outer = FastAPI()
    outer.mount(PREFIX, app)
    return TestClient(outer, BASE, follow_redirects=False)


def in_flask(app: Any) -> httpx2.Client:
    return under_wsgi(Flask(__name__).wsgi_app, app)


def in_django_asgi(app: Any) -> httpx2.Client:
    from django.core.asgi import get_asgi_application

    configured()
    outer = Starlette(routes=[Mount(PREFIX, app), Mount("/", get_asgi_application())])
    return TestClient(outer, BASE, follow_redirects=False)


def in_django_wsgi(app: Any) -> httpx2.Client:
    from django.core.wsgi import get_wsgi_application

    configured()
    return under_wsgi(get_wsgi_application(), app)


def under_wsgi(outer: Any, app: Any) -> httpx2.Client:
    inner: Any = ASGIMiddleware(app)
    both = DispatcherMiddleware(outer, {PREFIX: inner})
    return httpx2.Client(transport=httpx2.WSGITransport(app=both), base_url=BASE)


@pytest.mark.slow
@pytest.mark.parametrize("mount", [in_fastapi, in_flask, in_django_asgi, in_django_wsgi])
def test_pages_links_and_changes_stay_under_the_prefix(mount: Callable[[Any], httpx2.Client], make: Make) -> None:
    seq = make(max_attempts=1)
    seq.append(1, group=("7", "a b"), id="m1")
    seq.consume(fail, until_empty=True)
    http = mount(dashboard(redis=seq.endpoint, namespace=seq.options.namespace, who=Token(TOKEN)))
    assert http.get(f"{PREFIX}/").status_code == 401
    opened = http.get(f"{PREFIX}/q/jobs/group?g=7&g=a+b&token={TOKEN}")
    assert (opened.status_code, opened.headers["location"]) == (303, f"{PREFIX}/q/jobs/group?g=7&g=a+b")
    assert f"Path={PREFIX}" in opened.headers["set-cookie"]
    page = http.get(opened.headers["location"])
    links = [part.partition('"')[0] for part in page.text.replace(' src="', ' href="').split(' href="')[1:]]
    assert page.status_code == 200
    assert all(link.startswith((f"{PREFIX}/", "#")) or not link for link in links), links
    assert {http.get(link.replace("&amp;", "&")).status_code for link in links if link.startswith("/")} <= {200}
    changed = http.post(f"{PREFIX}/q/jobs/resume?g=7&g=a+b&id=m1", headers={"origin": BASE})
    assert changed.headers["location"].startswith(f"{PREFIX}/q/jobs/group?g=7&g=a+b&said=resume")
    assert "default-src 'none'" in changed.headers["content-security-policy"]
