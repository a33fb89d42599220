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

from ...client import Sequencer
from ...consume.forks import not_in_a_copy
from ...consume.registered import Work
from ...drain.steps.functions import checked_handler
from ...errors import ConfigurationError, HandlerNotFound
from ...texts.words import error_text
from ..logs import enable_loggers

log = logging.getLogger("sequencer")

PATCHERS = {"gevent.monkey": "saved", "eventlet.patcher": "already_patched"}
"""Modules that patch the standard library, and where each keeps what it patched."""


class App(NamedTuple):
    """A handler or steps, and the Sequencer they are registered with, if it is one."""

    handler: Work
    sequencer: Sequencer | None


def load_app(spec: str) -> App:
    """Import `module:attribute`: a Sequencer with a registered handler or steps, or a function that takes a Message.

    The working directory is importable, as with `python -m`. Raises HandlerNotFound, saying what was found, and
    ConfigurationError for a function that can't be a handler, for steps that don't fit together, and for a module that
    patches the standard library.
    """
    value, module = value_of(spec)
    if isinstance(value, Sequencer):
        if value.registered_handler is None:
            raise HandlerNotFound(
                f"{spec} is a Sequencer for queue {value.queue!r}, but no @handler and no @step is registered with it; "
                f"{_candidates(module, but=value)}"
            )
        return App(value.registered_handler, value)
    if not callable(value) or isinstance(value, type):
        raise HandlerNotFound(f"{spec} is {_kind(value)}, neither a Sequencer nor a function; {_candidates(module)}")
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
        raise HandlerNotFound(f"app {spec!r} must be module:attribute, for example shop.orders:seq")
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        with not_in_a_copy():
            module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and not (module_name + ".").startswith(error.name + "."):
            raise _import_failed(spec, error) from error
        searched = f"{Path.cwd()} and in the installed packages"
        raise HandlerNotFound(f"no module {error.name!r} for app {spec!r}, looked for in {searched}") from error
    except (Exception, SystemExit) as error:
        raise _import_failed(spec, error) from error
    finally:
        enable_loggers()  # Django's LOGGING disables them, and failures would go unnoticed
        _refuse_patches(spec)
    value: Any = module
    for name in attribute.split("."):
        if not hasattr(value, name):
            raise HandlerNotFound(f"module {module_name!r} has no {attribute!r}; {_candidates(module)}")
        value = getattr(value, name)
    return value, module


def _refuse_patches(spec: str) -> None:
    """Under green threads a consumer would hang silently. Partial patches are refused too."""
    for name, patches in PATCHERS.items():
        if getattr(sys.modules.get(name), patches, None):
            raise ConfigurationError(
                f"app {spec} patches the standard library ({name}), on which consumers can't run; "
                "import the handler from a module that patches nothing"
            )


def _import_failed(spec: str, error: Exception | SystemExit) -> HandlerNotFound:
    log.debug("importing %s failed", spec, exc_info=error)
    frames = [one for one in traceback.extract_tb(error.__traceback__) if not one.filename.startswith("<")]
    own = [one for one in frames if _is_own(Path(one.filename))]  # the library that raised is not where to fix it
    frame = (own or frames)[-1]
    where = "" if isinstance(error, SyntaxError) else f" ({frame.filename}, line {frame.lineno})"  # it says it itself
    return HandlerNotFound(f"app {spec!r} can't be imported: {type(error).__name__}: {error_text(error)}{where}")


def _is_own(path: Path) -> bool:
    return path.is_relative_to(Path.cwd()) and not path.is_relative_to(sys.prefix) and "site-packages" not in path.parts


def _kind(value: Any) -> str:
    name = "class" if isinstance(value, type) else type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def _candidates(module: Any, but: object = None) -> str:
    names = []
    for name, value in sorted(vars(module).items()):
        is_own_function = inspect.isfunction(value) and value.__module__ == module.__name__
        if not name.startswith("_") and (isinstance(value, Sequencer) or is_own_function) and value is not but:
            kind = "function" if is_own_function else "Sequencer"
            if not is_own_function and value.registered_handler is None:
                kind += " without a handler"
            names.append(f"{module.__name__}:{name} ({kind})")
    return f"it has: {', '.join(names)}" if names else "it has no Sequencer and no function of its own"


def app_from_project(directory: Path) -> str | None:
    """`[tool.sequencer] app` of the nearest pyproject.toml upwards from `directory`, or None."""
    for folder in (directory, *directory.parents):
        if (path := folder / "pyproject.toml").is_file():
            try:
                tool = tomllib.loads(path.read_text(encoding="utf-8")).get("tool", {})
                app = tool.get("sequencer", {}).get("app")
            except (tomllib.TOMLDecodeError, UnicodeDecodeError, AttributeError) as error:
                raise HandlerNotFound(f"{path} can't be read for [tool.sequencer] app: {error}") from error
            if app is not None and not (isinstance(app, str) and app):
                raise HandlerNotFound(f'{path}: [tool.sequencer] app must be text like "shop.orders:seq", got {app!r}')
            return app
    return None
