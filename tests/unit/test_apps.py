"""An application is found by `module:attribute`; what is wrong with that name is said, with what is there instead."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from sequencer.errors import ConfigurationError, HandlerNotFound
from sequencer.processes.handlers.apps import load_app

SHOP = '''"""An application."""

import os

from sequencer import Sequencer

LIMIT = 5
seq, idle = Sequencer("jobs"), Sequencer("jobs")


@seq.handler
def handle(message): ...
'''

LOGGING = """import logging

for name in ("sequencer", "sequencer.supervisor"):
    logging.getLogger(name).disabled = True
1 / 0
"""
"""What dictConfig does to loggers that it doesn't name."""


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with modules whose names no other test has."""
    (tmp_path / "unit_shop.py").write_text(SHOP)
    (tmp_path / "unit_broken.py").write_text("1 / 0\n")
    (tmp_path / "unit_wrong.py").write_text("def handle(:\n")
    (tmp_path / "unit_empty.py").touch()
    (tmp_path / "unit_env.py").write_text("import os\n\nos.environ['UNIT_ABSENT']\n")
    (tmp_path / "unit_log.py").write_text(LOGGING)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("unit_shop", "unit_empty"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


@pytest.mark.parametrize(
    ("app", "said"),
    [
        ("unit_shop", "app 'unit_shop' must be module:attribute, for example shop.orders:seq"),
        ("unit_shop.py:seq", "no module 'unit_shop.py' for app 'unit_shop.py:seq', looked for in /"),
        ("unit_env:seq", "unit_env.py, line 3)"),
        ("unit_shop:os", "unit_shop:os is a module, neither a Sequencer nor a function"),
        ("unit_shop:hanlde", "it has: unit_shop:handle (function), unit_shop:idle (Sequencer without a handler)"),
        ("unit_empty:handle", "it has no Sequencer and no function of its own"),
        ("unit_shop:idle", "no @handler and no @step is registered with it; it has: unit_shop:handle (function)"),
        ("unit_broken:handle", "can't be imported: ZeroDivisionError: division by zero"),
        ("unit_wrong:handle", "SyntaxError: invalid syntax (unit_wrong.py, line 1)"),
    ],
)
@pytest.mark.usefixtures("directory")
def test_an_app_that_is_not_found_is_said_with_what_is_there(app: str, said: str) -> None:
    with pytest.raises(HandlerNotFound) as refused:
        load_app(app)
    assert said in str(refused.value)
    assert "importlib" not in str(refused.value)


@pytest.mark.usefixtures("directory")
def test_an_app_is_a_sequencer_with_its_handler_or_a_function() -> None:
    by_queue, by_function = load_app("unit_shop:seq"), load_app("unit_shop:handle")
    assert by_queue.handler is by_function.handler
    assert by_queue.sequencer is not None
    assert by_queue.sequencer.queue == "jobs"
    assert by_function.sequencer is None


@pytest.mark.usefixtures("directory")
def test_an_app_that_configures_logging_does_not_silence_ours_even_where_its_import_fails() -> None:
    ours = [logging.getLogger(name) for name in ("sequencer", "sequencer.supervisor")]
    with pytest.raises(HandlerNotFound):
        load_app("unit_log:handle")
    assert not any(logger.disabled for logger in ours)


@pytest.mark.parametrize("last", ["", "raise RuntimeError('cannot release un-acquired lock')"])
@pytest.mark.parametrize(("module", "patches"), [("gevent.monkey", "saved"), ("eventlet.patcher", "already_patched")])
def test_an_app_that_patches_the_standard_library_is_refused(
    directory: Path, monkeypatch: pytest.MonkeyPatch, module: str, patches: str, last: str
) -> None:
    """Also where its import failed by that."""
    fake = SimpleNamespace(**{patches: {}})
    monkeypatch.setitem(sys.modules, module, fake)
    monkeypatch.delitem(sys.modules, "unit_patches", raising=False)
    assert load_app("unit_shop:handle"), "imported only, it changes nothing"
    (directory / "unit_patches.py").write_text(
        f"import sys\nsys.modules['{module}'].{patches}['time'] = True\ndef handle(message): ...\n{last}\n"
    )
    with pytest.raises(ConfigurationError):
        load_app("unit_patches:handle")
