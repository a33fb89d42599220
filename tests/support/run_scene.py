"""Queues of one file for tests of `sequencer run`: an application whose messages say what happens, and the file."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sequencer import Sequencer
from sequencer.processes import workers
from sequencer.processes.master.master import Master
from sequencer.processes.master.run_file import read_file
from sequencer.settings.backoff import Backoff
from sequencer.testing import wait_until

PATIENCE_S = 30.0
"""How long to wait for what must come: far more than it takes, because test machines stand still now and then."""
SHOP = '''"""Each step of a handler is a line; a message's body says what happens."""

import json, os, signal, time

from sequencer import Sequencer
from sequencer.testing import wait_until

VERSION = 1


def note(what, message, **more):
    fields = {"what": what, "pid": os.getpid(), "at": time.monotonic(), "attempt": message.attempt}
    fields |= {"group": ":".join(message.group), "id": message.id, "score": message.score}
    fields |= {"stamp": message.stamp, "token": message.token, "version": VERSION, "tz": os.environ.get("TZ"), **more}
    with open(f"{message.queue}.ndjson", "ab", buffering=0) as history:
        history.write(json.dumps(fields).encode() + b"\\n")


def wait_for(gate):
    """Until it is open; each look leaves a beat, by which others see that this process goes on."""

    def look():
        with open(f"beats-{os.getpid()}", "ab") as beats:
            beats.write(b".")
        return os.path.exists(gate)

    wait_until(look, 60)


def handle(message):
    started, body = time.monotonic(), message.body
    note("begun", message)
    while "stubborn" in body:
        try:
            wait_for("never")
        except BaseException:
            note("swallowed", message)
    if "gate" in body:
        try:
            wait_for(body["gate"])
        except BaseException:
            note("cut", message)
            raise
    if "seconds" in body:
        time.sleep(body["seconds"])
    if "fail" in body:
        raise ValueError(body["fail"])
    if "exit" in body:
        os._exit(body["exit"])
    if "killed" in body and message.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    note("handled", message, started=started, ended=time.monotonic())


def queue(name):
    seq = Sequencer(name, namespace=os.environ["SEQUENCER_NAMESPACE"])
    seq.handler(handle)
    return seq


seq, orders, mails, bills = map(queue, ("jobs", "orders", "mails", "bills"))


def look(seen):
    return f"{seen.parked} parked" if seen.parked else None
'''
"""The application of all tests here, `shop.py`; what its handlers noted is in QUEUE.ndjson."""


def noted(path: Path, what: str, message_id: str | None = None) -> list[dict[str, Any]]:
    """Steps of handlers by what they are, in their order."""
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    events = [json.loads(line) for line in lines if line.endswith(b"\n")]
    return [event for event in events if event["what"] == what and message_id in (None, event["id"])]


class RunScene:
    """A directory with `shop.py` and `sequencer.toml`."""

    def __init__(self, directory: Path, make: Callable[..., Sequencer]) -> None:
        self.directory, self._make = directory, make

    def write_app(self, version: int = 1, *, end: str = "") -> None:
        """The application; `end` stands behind it."""
        (self.directory / "shop.py").write_text(SHOP.replace("VERSION = 1", f"VERSION = {version}") + end)

    def write_file(self, top: str = "", **queues: str) -> Path:
        """The file: a line for each word of a queue, split at `;`. Each has `app` unless it names `exec`."""
        lines = [top]
        for name, words in queues.items():
            lines += [f"[queues.{name}]", *(word.strip() for word in words.split(";"))]
            lines += [] if "exec" in words or "app" in words else [f"app = 'shop:{name}'"]
        path = self.directory / "sequencer.toml"
        path.write_text("\n".join(lines) + "\n")
        return path

    def append(self, queue: str, bodies: list[dict[str, Any]], group: str = "") -> None:
        """Each of a group of its own, or all of one."""
        self._make(queue).append_many(
            {"group": [group or f"g{n}"], "id": f"{group or 'm'}{n}", "score": n, "body": body}
            for n, body in enumerate(bodies)
        )

    def events(self, queue: str, what: str) -> list[dict[str, Any]]:
        return noted(self.directory / f"{queue}.ndjson", what)

    def ids(self, queue: str, what: str = "handled") -> list[str]:
        return [event["id"] for event in self.events(queue, what)]

    def wait_handled(self, queue: str, count: int) -> None:
        wait_until(lambda: len(self.events(queue, "handled")) >= count, PATIENCE_S, f"{count} handled of {queue}")

    @contextmanager
    def master(self, url: str = "") -> Iterator[Master]:
        """A master in a thread of this process, which replaces quickly and sees an idle host."""
        path, seq = self.directory / "sequencer.toml", self._make()
        url, namespace = url or seq.endpoint.url or "", seq.options.namespace
        master = Master(
            read_file(path, redis=url, namespace=namespace),
            lambda: read_file(path, redis=url, namespace=namespace),
            cpu=lambda: 0.0,
        )
        statuses: list[int] = []
        patch = pytest.MonkeyPatch()
        patch.setattr(workers, "LIMIT", 2)
        patch.setattr(workers, "RESTART", Backoff(base_s=0.01, cap_s=0.02))
        thread = threading.Thread(target=lambda: statuses.append(master.run()))
        thread.start()
        try:
            yield master
        finally:
            for _ in range(3):
                master.stop()
                thread.join(PATIENCE_S / 3)
            patch.undo()
        assert not thread.is_alive()
        assert statuses == [0]
