"""The example modules, each on the test's server and in the test's namespace."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sequencer
from sequencer import Sequencer

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
