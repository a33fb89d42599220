"""An application's function is found by its name, for a consumer process to run."""

from __future__ import annotations

import importlib
import inspect
import logging
import os
import signal
import sys
import tomllib
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from ...async_client import AsyncSequencer, blocking_client
from ...client import Sequencer
from ...consume.around import Work
from ...consume.forks import not_in_a_copy
from ...drain.steps.functions import checked_handler
from ...errors import ConfigurationError, HandlerNotFound
from ...texts.words import error_text
from ..logs import enable_loggers

log = logging.getLogger("sequencer")

PATCHERS = {"gevent.monkey": "saved", "eventlet.patcher": "already_patched"}
"""Modules that patch the standard library, and where each keeps what it patched."""


CLIENTS = Sequencer, AsyncSequencer


class App(NamedTuple):
    """A handler or steps, and the Sequencer they are registered with, if it is one."""

    handler: Work
    sequencer: Sequencer | None


def load_app(spec: str) -> App:
    """Import `module:attribute`: a Sequencer or AsyncSequencer with a registered handler or steps, or a function that
    takes a Message.

    The working directory is importable, as with `python -m`. Raises HandlerNotFound, saying what was found, and
    ConfigurationError for a function that can't be a handler, for steps that don't fit together, and for a module that
    patches the standard library.
    """
    value, module = value_of(spec)
    if isinstance(value, CLIENTS):
        if value.registered_handler is None:
            found = _candidates(module, but=value)
            raise HandlerNotFound("app_without_handler", app=spec, queue=value.queue, found=found)
        client = blocking_client(value) if isinstance(value, AsyncSequencer) else value
        return App(value.registered_handler, client)
    if not callable(value) or isinstance(value, type):
        raise HandlerNotFound("app_type", app=spec, type=type(value).__name__, found=_candidates(module))
    return App(checked_handler(value), None)


@contextmanager
def limited(limit_s: float, end: Callable[[], object]) -> Iterator[None]:
    """Call `end` if the block takes longer, by a signal: no thread survives a module that patches threads."""
    before = signal.signal(signal.SIGALRM, lambda *_: end())
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def value_of(spec: str) -> tuple[Any, Any]:
    """What `module:attribute` names, imported as `load_app` does it, and its module. Raises HandlerNotFound."""
    module_name, found, attribute = spec.partition(":")
    if not found or not attribute or not all(name.isidentifier() for name in module_name.split(".")):
        raise HandlerNotFound("app_name_invalid", app=spec)
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        with not_in_a_copy():
            module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and not (module_name + ".").startswith(error.name + "."):
            raise _import_failed(spec, error) from error
        raise HandlerNotFound("module_not_found", name=error.name, app=spec, directory=os.getcwd()) from error
    except (Exception, SystemExit) as error:
        raise _import_failed(spec, error) from error
    finally:
        enable_loggers()  # Django's LOGGING disables them, and failures would go unnoticed
        _refuse_patches(spec)
    value: Any = module
    for name in attribute.split("."):
        if not hasattr(value, name):
            raise HandlerNotFound("attribute_not_found", name=attribute, module=module_name, found=_candidates(module))
        value = getattr(value, name)
    return value, module


def _refuse_patches(spec: str) -> None:
    """Under green threads a consumer would hang silently. Partial patches are refused too."""
    for name, patches in PATCHERS.items():
        if getattr(sys.modules.get(name), patches, None):
            raise ConfigurationError("app_patches_library", app=spec, module=name)


def _import_failed(spec: str, error: Exception | SystemExit) -> HandlerNotFound:
    log.debug("importing %s failed", spec, exc_info=error)
    frames = [one for one in traceback.extract_tb(error.__traceback__) if not one.filename.startswith("<")]
    own = [one for one in frames if _is_own(Path(one.filename))]  # the library that raised is not where to fix it
    frame = (own or frames)[-1]
    where = {} if isinstance(error, SyntaxError) else {"file": frame.filename, "line": frame.lineno}  # it has its own
    return HandlerNotFound("import_failed", app=spec, type=type(error).__name__, error=error_text(error), **where)


def _is_own(path: Path) -> bool:
    return path.is_relative_to(Path.cwd()) and not path.is_relative_to(sys.prefix) and "site-packages" not in path.parts


def _candidates(module: Any, but: object = None) -> dict[str, str]:
    found = {}
    for name, value in sorted(vars(module).items()):
        is_own_function = inspect.isfunction(value) and value.__module__ == module.__name__
        if not name.startswith("_") and (isinstance(value, CLIENTS) or is_own_function) and value is not but:
            kind = "function" if is_own_function else type(value).__name__
            if not is_own_function and value.registered_handler is None:
                kind += " without a handler"
            found[f"{module.__name__}:{name}"] = kind
    return found


def app_from_project(directory: Path) -> str | None:
    """`[tool.sequencer] app` of the nearest pyproject.toml upwards from `directory`, or None."""
    for folder in (directory, *directory.parents):
        if (path := folder / "pyproject.toml").is_file():
            try:
                tool = tomllib.loads(path.read_text(encoding="utf-8")).get("tool", {})
                app = tool.get("sequencer", {}).get("app")
            except (tomllib.TOMLDecodeError, UnicodeDecodeError, AttributeError) as error:
                raise HandlerNotFound("toml_invalid", error=str(error), place=[str(path)]) from error
            if app is not None and not (isinstance(app, str) and app):
                raise HandlerNotFound("app_name_invalid", app=app, place=[str(path), "tool.sequencer.app"])
            return app
    return None
