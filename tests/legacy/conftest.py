"""The example modules, each on the test's server and in the test's namespace."""

from __future__ import annotations

import base64
import hmac
import importlib.util
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import sequencer
from sequencer import EmbeddedServer, Sequencer

from ..process.conftest import cli

__all__ = ["cli"]  # a fixture

HERE = Path(__file__).parent
Load = Callable[..., Any]


@pytest.fixture
def load(make: Callable[..., Sequencer], monkeypatch: pytest.MonkeyPatch) -> Load:
    """Runs an example module anew, as its file stands there; `settings` go before those that it names."""

    def load(name: str, **settings: Any) -> Any:
        def client(queue: str, **named: Any) -> Sequencer:
            return make(queue, **{**named, **settings})

        with monkeypatch.context() as patch:
            patch.setattr(sequencer, "Sequencer", client)
            spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        return module

    return load


@pytest.fixture
def own_server() -> Iterator[EmbeddedServer]:
    """A server for an example that runs in processes of its own, in the namespace that it names: none."""
    directory = Path(tempfile.mkdtemp(prefix="sqa-"))
    with EmbeddedServer(directory) as running:
        yield running
    shutil.rmtree(directory)


def is_signed(said: dict[str, Any], secret: str) -> bool:
    """Whether a robot of Feishu takes this: the key is time and secret, and nothing is signed by it."""
    key = f"{said['timestamp']}\n{secret}".encode()
    return bool(said["sign"] == base64.b64encode(hmac.new(key, digestmod="sha256").digest()).decode())
