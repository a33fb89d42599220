"""Flask, Django, Celery and RQ in docs/: each example runs as it stands there, with the real framework."""

from __future__ import annotations

import importlib.util
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sequencer.testing import wait_until

from ..support import doc_blocks
from ..support.doc_blocks import PAGES, Block, missing
from ..support.run_scene import PATIENCE_S

pytestmark = pytest.mark.nightly

FLASK, DJANGO = doc_blocks.parts(PAGES["docs/frameworks.md"])
(CELERY,) = doc_blocks.parts(PAGES["docs/from-celery.md"])
(RQ,) = doc_blocks.parts(PAGES["docs/from-rq.md"])
SECTIONS = {"flask": FLASK, "django": DJANGO, "celery": CELERY, "rq": RQ}


@pytest.fixture(params=SECTIONS)
def framework(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if importlib.util.find_spec(name) is None:
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


def in_that_order(text: str, printed: str) -> bool:
    lines = iter(printed.splitlines())
    return all(any(line == one for one in lines) for line in text.splitlines())
