"""FastAPI, Flask, Django, Celery and RQ in docs/: each example runs as it stands there, with the real framework."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from sequencer.testing import wait_until

from ..support import doc_blocks
from ..support.doc_blocks import PAGES, Block, missing
from ..support.run_scene import PATIENCE_S

pytestmark = pytest.mark.nightly

ASYNCIO, FASTAPI = doc_blocks.parts(PAGES["docs/async.md"])
FLASK, DJANGO = doc_blocks.parts(PAGES["docs/frameworks.md"])
CELERY, TASKS = doc_blocks.parts(PAGES["docs/from-celery.md"])
WEB, WEB_FASTAPI, WEB_DJANGO, WEB_FLASK = doc_blocks.parts(PAGES["docs/dashboard.md"])
(RQ,) = doc_blocks.parts(PAGES["docs/from-rq.md"])
SECTIONS = {
    "asyncio": ASYNCIO,
    "fastapi": FASTAPI,
    "flask": FLASK,
    "django": DJANGO,
    "celery": CELERY,
    "celery tasks": TASKS,
    "rq": RQ,
    "starlette: dashboard": WEB,
    "fastapi: dashboard": WEB_FASTAPI,
    "django: dashboard": WEB_DJANGO,
    "flask: dashboard": WEB_FLASK,
}


@pytest.fixture(params=SECTIONS)
def framework(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if importlib.util.find_spec(re.split(r"\W", name)[0]) is None:
        pytest.skip(f"{name} is not installed, its recipe is not run: pip install {name}")
    return name


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def moved(block: Block, port: int) -> Block:
    """The block with a port of this test in place of the one that people read."""
    return block._replace(text=re.sub(r"\b8000\b", str(port), block.text))


@contextmanager
def celery_worker(directory: Path, broker: str) -> Iterator[None]:
    words = [sys.executable, "-m", "celery", "-A", "tasks", "-b", broker, "worker", "--pool", "solo"]
    with (directory / "worker.log").open("w") as log:
        worker = subprocess.Popen(words, cwd=directory, stdout=log, stderr=log)
        try:
            yield
        finally:
            worker.terminate()
            worker.wait(PATIENCE_S)


@pytest.mark.timeout(300)
def test_an_example_does_what_it_says(framework: str, monkeypatch: pytest.MonkeyPatch) -> None:
    printed, port = "", free_port()
    with doc_blocks.new_place() as place:
        charged = place.directory / "charged.txt"
        broker = place.server.url.replace("unix://", "redis+socket://")
        monkeypatch.setenv("CELERY_BROKER_URL", broker)
        monkeypatch.setenv("RQ_REDIS_URL", place.server.url)
        for block in SECTIONS[framework]:
            if framework == "celery" and "unpause" in block.text:
                with celery_worker(place.directory, broker):
                    wait_until(charged.exists, PATIENCE_S, "the worker of Celery handled c1")
                assert charged.read_text() == "ann c1\n", "the new queue is paused"
            if block.kind == "text":
                assert not missing(block.text, printed), printed
                assert in_that_order(block.text, printed), printed
            elif not doc_blocks.write(block, place.directory):
                printed = doc_blocks.run(moved(block, port), place)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("grace_s", [10, 0.01])
def test_fastapi_is_stopped_under_load_and_nothing_is_lost(grace_s: float) -> None:
    """Of what it accepted, all is handled once and in order, though it is stopped twice: it waits for its handlers, or
    interrupts them.
    """
    httpx = pytest.importorskip("httpx", reason="not installed, its recipe is not run: pip install httpx")
    pytest.importorskip("uvicorn", reason="not installed, its recipe is not run: pip install uvicorn")
    events: list[dict[str, Any]] = [{"order": n % 20, "id": f"e{n}", "ts": n, "step": n} for n in range(500)]
    taken, printed = list[int](), ""
    with doc_blocks.new_place() as place:
        place.server.start()
        for block in FASTAPI:
            doc_blocks.write(block._replace(text=block.text.replace("grace=10", f"grace={grace_s}")), place.directory)
        environment = {**os.environ, "SEQUENCER_REDIS": place.server.url}
        for part in (events[:250], events[250:]):
            port = free_port()
            words = ["uvicorn", "shop:app", "--port", str(port), "--log-level", "warning"]
            server = subprocess.Popen(
                [sys.executable, "-m", *words], cwd=place.directory, env=environment, stdout=subprocess.PIPE, text=True
            )
            with httpx.Client(base_url=f"http://127.0.0.1:{port}") as client, suppress(httpx.TransportError):
                wait_until(lambda: answers(client, httpx.TransportError), PATIENCE_S, "uvicorn answers")
                for event in part:
                    if client.post("/events", json=event).status_code == 202:
                        taken.append(event["ts"])
                    if event is part[150]:
                        server.terminate()
            printed += server.communicate(timeout=PATIENCE_S)[0]
            assert -server.returncode in (0, signal.SIGTERM)
        assert 300 < len(taken) < 500
        left = Block("console", "$ sequencer consume orders --app shop:seq --until-empty")
        printed += doc_blocks.run(left, place)
    handled = [(int(order), int(step)) for order, step in re.findall(r"^(\d+) (\d+)$", printed, re.MULTILINE)]
    assert sorted(step for _, step in handled) == sorted(step for _, step in {*handled})
    assert {step for _, step in handled} >= {*taken}
    for order in range(20):
        steps = [step for one, step in handled if one == order]
        assert steps == sorted(steps)


def answers(client: Any, refused: type[Exception]) -> bool:
    with suppress(refused):
        return bool(client.get("/health").status_code == 200)
    return False


def in_that_order(text: str, printed: str) -> bool:
    lines = iter(printed.splitlines())
    return all(any(line == one for one in lines) for line in text.splitlines())
