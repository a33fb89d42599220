"""The recipes of `cli/recipes/applications`: each section is run as it stands there, with the real framework."""

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

from sequencer import EmbeddedServer
from sequencer.testing import wait_until

from ..support import readme_blocks
from ..support.readme_blocks import READMES, Block, unsaid
from .conftest import PATIENCE_S

pytestmark = pytest.mark.nightly

FLASK, DJANGO, CELERY, RQ = readme_blocks.parts(READMES["cli/recipes/applications/README.md"])
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
def test_a_recipe_does_what_it_says(framework: str, monkeypatch: pytest.MonkeyPatch) -> None:
    said, port = "", free_port()
    with readme_blocks.place() as directory:
        server = EmbeddedServer(directory / "home")
        broker = server.url.replace("unix://", "redis+socket://")
        monkeypatch.setenv("CELERY_BROKER_URL", broker)
        monkeypatch.setenv("RQ_REDIS_URL", server.url)
        for block in SECTIONS[framework]:
            if framework == "celery" and "unpause" in block.text:
                with celery_worker(directory, broker):
                    wait_until((directory / "charged.txt").exists, PATIENCE_S, "the worker of Celery handled c1")
                assert (directory / "charged.txt").read_text() == "ann c1\n", "the new queue is paused"
            if block.kind == "text":
                assert not unsaid(block.text, said), said
                assert in_that_order(block.text, said), said
            elif not readme_blocks.write(block, directory):
                said = readme_blocks.run(moved(block, port), directory)


def in_that_order(text: str, said: str) -> bool:
    lines = iter(said.splitlines())
    return all(any(line == one for one in lines) for line in text.splitlines())


def test_lines_in_another_order_are_noticed() -> None:
    assert in_that_order("a\nb", "x\na\ny\nb")
    assert not in_that_order("b\na", "a\nb")


def test_every_recipe_has_files_commands_and_an_answer() -> None:
    assert len(SECTIONS) == 4
    for blocks in SECTIONS.values():
        assert {block.kind for block in blocks} == {"python", "console", "text"}
        assert all(block.text.startswith("# ") for block in blocks if block.kind == "python"), "each is a file"
