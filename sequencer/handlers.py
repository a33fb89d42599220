"""What a consumer process runs: an application's function, a command for each message, or a line printed for each."""

from __future__ import annotations

import fcntl
import importlib
import inspect
import logging
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import tomllib
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from .client import Sequencer
from .drain import Handler
from .errors import HandlerNotFound, StopConsuming
from .interruption import allowed, held, name_of
from .message import Message
from .words import TRACEBACK_BYTES

log = logging.getLogger("sequencer")


class CommandFailed(Exception):
    """The command for a message ended with a non-zero exit status."""


class OutputClosed(StopConsuming):
    """Whoever read the printed lines is gone: nothing can be handled any more."""


class OutputFailed(StopConsuming):
    """The printed lines can't be written (a full disk, say): no failure of the message, but nothing can go on."""


def message_line(message: Message) -> bytes:
    """The message as one JSON line: queue group id score attempt token appended_at body, and headers if it has any."""
    fields: dict[str, Any] = {
        "queue": message.queue,
        "group": message.group,
        "id": message.id,
        "score": message.score,
        "attempt": message.attempt,
        "token": message.token,
        "appended_at": message.appended_at,
        "body": message.body,
    }
    if message.headers:
        fields["headers"] = message.headers
    return orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)


def print_handler(lock_fd: int, output_fd: int = 1) -> Handler:
    """Prints each message as one whole line, before it is acknowledged.

    Lines longer than a pipe's buffer are not written in one piece by the kernel, so consumers that share an output
    take a record lock on the file `lock_fd` (one that ends with its process). Its first byte says whether a line is
    open: one that was cut short, because its consumer was killed, is ended before the next begins.
    """

    def handle(message: Message) -> None:
        line = message_line(message)
        fcntl.lockf(lock_fd, fcntl.LOCK_EX)
        try:
            if os.pread(lock_fd, 1, 0) == b"1":
                line = b"\n" + line
            os.pwrite(lock_fd, b"1", 0)
            while line:
                line = line[os.write(output_fd, line) :]
            os.pwrite(lock_fd, b"0", 0)
        except BrokenPipeError as error:
            raise OutputClosed("the output was closed") from error
        except OSError as error:
            raise OutputFailed(f"the output can't be written: {error.strerror}") from error
        finally:
            fcntl.lockf(lock_fd, fcntl.LOCK_UN)

    return handle


def exec_handler(command: str) -> Handler:
    """Runs a shell command for each message, its JSON line on standard input; a non-zero exit status is a failure.

    The end of what it wrote to standard error is kept with the failure. When the consumer is told to stop now, the
    command and what it started are killed first, so that it can't go on beside its successor. (A consumer that is
    killed outright can't do that: its command goes on. `token` in the JSON tells the two apart.)
    """

    def handle(message: Message) -> None:
        # A file, not a pipe: what the command leaves running in the background may keep standard error open.
        with held(), tempfile.TemporaryFile() as errors, _listening() as selector:
            words = ["/bin/sh", "-c", command]
            with subprocess.Popen(words, stdin=subprocess.PIPE, stderr=errors, process_group=0) as process:
                try:
                    with _communicating(process, message_line(message), selector) as communicate, allowed():
                        communicate()
                except BaseException:
                    with suppress(ProcessLookupError):  # it has just ended
                        os.killpg(process.pid, signal.SIGKILL)
                    raise
            errors.seek(0)
            said = errors.read()
        if said:
            sys.stderr.buffer.write(said)
            sys.stderr.buffer.flush()
        if process.returncode:
            ending = f"exit status {process.returncode}"
            if process.returncode < 0:
                ending = f"signal {name_of(-process.returncode)}"
            tail = said[-TRACEBACK_BYTES // 2 :].decode("utf-8", "replace").strip()
            raise CommandFailed(f"{command!r} ended with {ending}{': ' + tail if tail else ''}")

    return handle


@contextmanager
def _listening() -> Iterator[selectors.BaseSelector | None]:
    """A selector that also ends its wait when a signal comes; None where none can be had.

    A signal that comes after Python has looked for signals and before the kernel begins to wait does not end that wait,
    and what is to be done about it would be done at its end. So the byte is waited for that Python writes for each
    (`signal.set_wakeup_fd`). Only the main thread hears of signals; and there are systems without a descriptor for a
    process, by which its end could be waited for as well (macOS; Linux before 5.3; where it is refused).
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(os, "pidfd_open"):
        yield None
        return
    heard, told = socket.socketpair()
    with heard, told, selectors.DefaultSelector() as selector:
        told.setblocking(False)
        selector.register(heard, selectors.EVENT_READ)
        old = signal.set_wakeup_fd(told.fileno(), warn_on_full_buffer=False)
        try:
            yield selector
        finally:
            signal.set_wakeup_fd(old)


@contextmanager
def _communicating(
    process: subprocess.Popen[bytes], line: bytes, selector: selectors.BaseSelector | None
) -> Iterator[Callable[[], Any]]:
    """Gives what writes the line to the process and waits for its end, and hears of signals if there is a selector."""
    ended, stdin = -1, process.stdin
    if selector:
        with suppress(OSError):
            ended = os.pidfd_open(process.pid)
    if not selector or ended < 0:
        yield lambda: process.communicate(line)
        return
    assert stdin
    os.set_blocking(stdin.fileno(), False)
    waited_for = {ended, stdin.fileno()}

    def communicate() -> None:
        rest = memoryview(line)
        while waited_for:
            for key, _ in selector.select():
                if key.fileobj is stdin:
                    try:
                        rest = rest[os.write(key.fd, rest) :]
                    except BrokenPipeError:  # nobody reads it
                        rest = rest[:0]
                if key.fd not in waited_for:
                    os.read(key.fd, 64)
                elif key.fd == ended or not rest:
                    selector.unregister(key.fileobj)
                    waited_for.remove(key.fd)
                    if key.fileobj is stdin:
                        stdin.close()

    try:
        selector.register(stdin, selectors.EVENT_WRITE)
        selector.register(ended, selectors.EVENT_READ)
        yield communicate
    finally:
        os.close(ended)


@dataclass(frozen=True, slots=True)
class App:
    """What `module:attribute` named: a handler, and the Sequencer it is registered with, if it is one."""

    handler: Handler
    sequencer: Sequencer | None


def load_app(spec: str) -> App:
    """Import `module:attribute`: a Sequencer with a registered handler, or a function that takes a Message.

    The working directory is importable, as with `python -m`. Raises HandlerNotFound, saying what was found.
    """
    module_name, found, attribute = spec.partition(":")
    if not found or not attribute or not all(name.isidentifier() for name in module_name.split(".")):
        raise HandlerNotFound(f"app {spec!r} must be module:attribute, for example shop.orders:seq")
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and not (module_name + ".").startswith(error.name + "."):
            raise _import_failed(spec, error) from error
        here = sorted(path.stem for path in Path.cwd().glob("*.py"))
        raise HandlerNotFound(
            f"no module {error.name!r} for app {spec!r}; looked in {os.getcwd()} (modules there: "
            f"{', '.join(here) or 'none'}) and in the installed packages"
        ) from error
    except Exception as error:
        raise _import_failed(spec, error) from error
    value: Any = module
    for name in attribute.split("."):
        if not hasattr(value, name):
            raise HandlerNotFound(f"module {module_name!r} has no {attribute!r}; {_candidates(module)}")
        value = getattr(value, name)
    if isinstance(value, Sequencer):
        if value.registered_handler is None:
            raise HandlerNotFound(
                f"{spec} is a Sequencer for queue {value.queue!r}, but no @handler is registered with it"
            )
        return App(value.registered_handler, value)
    if not callable(value) or isinstance(value, type):
        raise HandlerNotFound(
            f"{spec} is {type(value).__name__}, neither a Sequencer nor a function; {_candidates(module)}"
        )
    return App(value, None)


def _import_failed(spec: str, error: Exception) -> HandlerNotFound:
    log.debug("importing %s failed", spec, exc_info=error)
    *_, frame = traceback.extract_tb(error.__traceback__)
    return HandlerNotFound(
        f"app {spec!r} can't be imported: {type(error).__name__}: {error} ({frame.filename}, line {frame.lineno})"
    )


def _candidates(module: Any) -> str:
    names = []
    for name, value in sorted(vars(module).items()):
        is_own_function = inspect.isfunction(value) and value.__module__ == module.__name__
        if not name.startswith("_") and (isinstance(value, Sequencer) or is_own_function):
            names.append(f"{name} ({'function' if is_own_function else 'Sequencer'})")
    return f"it has: {', '.join(names)}" if names else "it has no Sequencer and no function of its own"


def app_from_project(directory: Path) -> str | None:
    """`[tool.sequencer] app` of the nearest pyproject.toml upwards from `directory`, or None."""
    for place in (directory, *directory.parents):
        path = place / "pyproject.toml"
        if path.is_file():
            try:
                table: Any = tomllib.loads(path.read_text(encoding="utf-8"))
            except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
                raise HandlerNotFound(f"{path} can't be read for [tool.sequencer] app: {error}") from error
            for name in ("tool", "sequencer", "app"):
                if isinstance(table, dict) and name not in table:
                    return None
                table = table[name] if isinstance(table, dict) else None
            if not isinstance(table, str) or not table:
                raise HandlerNotFound(
                    f'{path}: [tool.sequencer] app must be text like "shop.orders:seq", got {table!r}'
                )
            return table
    return None
