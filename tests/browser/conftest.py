"""A dashboard that is served, a browser, and a queue with something to fix. Left out, with a reason, without either.

At the end of each test: the console has no error that the test did not expect, and no other host was asked.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import uvicorn

from sequencer import Sequencer
from sequencer.testing import wait_until
from sequencer.web import Token, dashboard
from tests.support.handling import Make, fail

TOKEN = "a-token-of-the-tests"
CACHE = Path(__file__).parents[2] / ".nightly" / "npm"


class Aside:
    """A client whose calls are made in another thread: playwright keeps an event loop in this one."""

    def __init__(self, seq: Sequencer) -> None:
        self.seq, self._pool = seq, ThreadPoolExecutor(1)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *args, **options: self._pool.submit(getattr(self.seq, name), *args, **options).result(60)


@pytest.fixture
def seq(make: Make) -> Any:
    return Aside(make("jobs", max_attempts=1))


@pytest.fixture
def parked(seq: Any) -> tuple[str, ...]:
    """A group that is parked on the first of its two messages."""
    group = ("1002", "a b")
    for id in ("m1", "m2"):
        seq.append({"id": id, "to": "<b>Ann</b>"}, group=group, id=id)
    seq.consume(fail, until_empty=True)
    return group


@pytest.fixture
def url(seq: Any, namespace: str) -> Iterator[str]:
    """Where the dashboard is served."""
    app = dashboard(redis=seq.seq.endpoint, namespace=namespace, who=Token(TOKEN), hosts=[])
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", ws="none", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    wait_until(lambda: server.started, what="the dashboard")
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    server.should_exit = True
    thread.join(20)
    listening.close()


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install --group browser")
    if not (path := shutil.which("chromium")):
        pytest.skip("no chromium here; Debian has it under this name")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


class Tabs:
    """Opens pages, signed in, and watches them."""

    def __init__(self, chromium: Any, url: str) -> None:
        self.chromium, self.url = chromium, url
        self.expected = set[str]()
        """Parts of what the console may say, and other hosts."""
        self._contexts = list[Any]()
        self._errors = list[str]()
        self._asked = set[str]()

    def open(self, path: str = "/", *, script: str | None = None, **options: Any) -> Any:
        """`script` stands for that of our pages."""
        context = self.chromium.new_context(**options)
        context.set_default_timeout(10_000)
        self._contexts.append(context)
        page = context.new_page()
        page.on("console", lambda said: self._errors.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: self._errors.append(str(error)))
        page.on("request", lambda request: self._asked.add(urlsplit(request.url).netloc))
        if script is not None:
            page.route("**/live.js*", lambda route: route.fulfill(body=script, content_type="text/javascript"))
        page.goto(f"{self.url}/?token={TOKEN}")
        assert "token" not in page.url
        page.goto(self.url + path)
        return page

    def close(self) -> None:
        for context in self._contexts:
            context.close()

    def check(self) -> None:
        left = [one for one in self._errors if not any(part in one for part in self.expected)]
        assert (left, self._asked - self.expected) == ([], {urlsplit(self.url).netloc})


@pytest.fixture
def tabs(chromium: Any, url: str) -> Iterator[Tabs]:
    tabs = Tabs(chromium, url)
    yield tabs
    tabs.close()
    tabs.check()


@pytest.fixture(scope="session")
def axe() -> str:
    """The source of axe-core, from npm; kept in the folder of the nightly runs."""
    source = CACHE / "node_modules" / "axe-core" / "axe.min.js"
    if not source.exists():
        if not shutil.which("npm"):
            pytest.skip("no npm here, so no axe-core")
        CACHE.mkdir(parents=True, exist_ok=True)
        words = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(CACHE), "axe-core@4"]
        subprocess.run(words, check=True, timeout=100, stdin=subprocess.DEVNULL)
    return source.read_text()


def soon(condition: Callable[[], Any], page: Any, what: str, timeout_s: float = 15) -> Any:
    """Wait for it while the browser goes on: playwright's own waiting needs eval, which our policy forbids."""

    def asked() -> Any:
        page.wait_for_timeout(50)
        return condition()

    return wait_until(asked, timeout_s, what)
