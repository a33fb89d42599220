"""A proxy between clients and the server that understands their protocol, and does to requests and replies what
networks and servers do.

It listens on a Unix socket, or on a port of the loopback, and passes commands on until a fault of `fault.py` meets one.

What is counted is what took effect: a drop when its client gave up, a late or repeated request when the server
answered it. Which of our scripts a request is, the proxy knows by digest or source.
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from ..judge.history import Recorder
from .fault import KINDS, Fault
from .frames import end_of_reply
from .pipe import Pipe

START_S = 10.0
CHECK_S = 0.005
RECONNECT_S = 5.0
"""How long a late request waits for its client to come back before it is carried out all the same."""


@dataclass(frozen=True, slots=True)
class Address:
    """A Unix socket's path, or a port of the loopback."""

    path: str = ""
    port: int = 0

    @classmethod
    def of(cls, url: str) -> Address:
        parts = urlsplit(url)
        return cls(path=parts.path) if parts.scheme == "unix" else cls(port=parts.port or 6379)

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self.path:
            return await asyncio.open_unix_connection(self.path)
        return await asyncio.open_connection("127.0.0.1", self.port)


class FaultProxy:
    """A proxy of its own thread, from when it is made until `close`. `url` is what clients connect to.

    `server`: the URL of the server, `unix://` or on the loopback. `path`: the socket to listen on; a port otherwise.
    `recorder` gets a `fault` event for each fault that took effect, with the process that it touched where the system
    tells it (Unix sockets on Linux). Elsewhere (a port; macOS) `who` is "", which stands for all: then a fault excuses
    every process in the judge's eyes, and what it shows is less. `watch` sees each reply: script or command, its first
    bytes, the process.
    """

    def __init__(
        self,
        server: str,
        path: str | os.PathLike[str] | None = None,
        *,
        seed: int | None = None,
        recorder: Recorder | None = None,
        watch: Callable[[str, bytes, str], None] | None = None,
    ) -> None:
        self.effects: Counter[str] = Counter()
        """Kind -> how often it took effect."""
        self.pending = 0
        """Late and repeated requests that were not answered yet."""
        self.connections: Counter[str] = Counter()
        """Process -> how often it connected."""
        self.faults: tuple[Fault, ...] = ()
        self.watch, self.server = watch, Address.of(server)
        self._listens_at, self._recorder, self._random = os.fspath(path or ""), recorder, random.Random(seed)
        self._lock, self._started = threading.Lock(), threading.Event()
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._error: OSError | None = None
        self._cleared_at = 0.0
        self.url = ""
        self._thread = threading.Thread(target=self._run, name="fault-proxy", daemon=True)
        self._thread.start()
        if not self._started.wait(START_S) or self._error:
            raise self._error or TimeoutError("the proxy did not start")

    def __enter__(self) -> FaultProxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add(
        self,
        kind: str,
        *,
        on: Collection[str] = (),
        times: int | None = 1,
        seconds: float = 0.0,
        chance: float = 1.0,
        who: str = "",
    ) -> Fault:
        """Let a fault meet the next `times` requests (None: all, until `clear`) that are of `on`.

        `on`: scripts in lower case ("ack"), other commands in capitals ("BLPOP"); empty for all. `chance`: the part
        of them that it meets. `who`: of this process only. Raises ValueError for a kind that there is not.
        """
        if kind not in KINDS:
            raise ValueError(f"no fault {kind!r}; there are: {', '.join(KINDS)}")
        ends = time.monotonic() + seconds if kind == "black hole" else float("inf")
        fault = Fault(kind, frozenset(on), None if kind == "black hole" else times, seconds, chance, who, ends)
        with self._lock:
            self.faults += (fault,)
        return fault

    def clear(self) -> None:
        """No more faults from now on; what is held is delivered now, and what a black hole met is closed."""
        with self._lock:
            self.faults = ()
        self._cleared_at = time.monotonic()

    async def hold(self, since: float, seconds: float) -> None:
        """Wait for `seconds` from `since` on, or until `clear`."""
        while time.monotonic() < since + seconds and self._cleared_at < since:
            await asyncio.sleep(min(CHECK_S, max(0.0, since + seconds - time.monotonic())))

    def choose(self, name: str, who: str, *, in_multi: bool, is_sha: bool) -> Fault | None:
        """The fault that meets this request, if any; the oldest one first."""
        now = time.monotonic()
        for fault in self.faults:
            if fault.fits(name, who, now, in_multi=in_multi, is_sha=is_sha) and self._random.random() < fault.chance:
                if fault.times is not None:
                    fault.times -= 1
                if fault.times == 0:
                    self._forget(fault)
                return fault
            if now >= fault.ends:
                self._forget(fault)
        return None

    def hole(self, name: str, who: str) -> Fault | None:
        """The black hole that is open now for the reply to this command, if any."""
        now = time.monotonic()
        for fault in self.faults:
            is_met = fault.kind == "black hole" and fault.fits(name, who, now, in_multi=False, is_sha=False)
            if is_met and self._random.random() < fault.chance:
                return fault
        return None

    def took_effect(self, kind: str, who: str, since: float, *, what: str = "fault") -> None:
        """Count a fault, and record it from `since` until now."""
        self.effects[kind] += 1
        if self._recorder:
            self._recorder.note(what, at=since, until=time.monotonic(), who=who, kind=kind)

    def later(self, request: bytes, fault: Fault, who: str, since: float) -> None:
        """Carry a request out on a connection of our own, once its client is back."""
        self.pending += 1
        self._spawn(self._deliver(request, fault, who, since))

    def close(self) -> None:
        """Close all connections and stop."""
        if not self._loop.is_closed():
            with suppress(RuntimeError):  # it has ended already
                self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(START_S)
        if self._listens_at:
            with suppress(FileNotFoundError):
                os.unlink(self._listens_at)

    def _forget(self, fault: Fault) -> None:
        with self._lock:
            self.faults = tuple(other for other in self.faults if other is not fault)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            listener = self._loop.run_until_complete(self._listen())
            self._started.set()
            self._loop.run_forever()
            listener.close()
            for task in self._tasks:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*self._tasks, return_exceptions=True))
        except OSError as error:
            self._error = error
        finally:
            self._started.set()
            self._loop.close()

    async def _listen(self) -> asyncio.Server:
        if self._listens_at:
            server = await asyncio.start_unix_server(self._accepted, self._listens_at)
            self.url = f"unix://{self._listens_at}"
        else:
            server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
            self.url = f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        return server

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._spawn(self._serve(reader, writer))

    def _spawn(self, work: object) -> None:
        task: asyncio.Task[None] = self._loop.create_task(work)  # type: ignore[arg-type]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        who = _process_of(writer.get_extra_info("socket"))
        self.connections[who] += 1
        try:
            down_reader, down_writer = await self.server.connect()
        except OSError:
            writer.close()
            return
        await Pipe(self, who, reader, writer, down_reader, down_writer).run()

    async def _deliver(self, request: bytes, fault: Fault, who: str, since: float) -> None:
        try:
            connected, until = self.connections[who], since + fault.seconds
            while time.monotonic() < until and self._cleared_at < since:
                await asyncio.sleep(CHECK_S)
            until += RECONNECT_S if fault.kind == "request late" else 0.0
            while self.connections[who] == connected and time.monotonic() < until and self._cleared_at < since:
                await asyncio.sleep(CHECK_S)
            reader, writer = await self.server.connect()
            writer.write(request)
            reply = b""
            while end_of_reply(reply, 0) is None and (data := await reader.read(65536)):
                reply += data
            writer.close()
            if reply and not reply.startswith(b"-"):
                self.took_effect(fault.kind, who, since)
        except OSError:
            return  # the server is gone: this fault has no effect
        finally:
            self.pending -= 1


def _process_of(connection: socket.socket) -> str:
    """The process at the other end, as a Recorder calls it; "" where the system does not say."""
    if connection.family != socket.AF_UNIX or not hasattr(socket, "SO_PEERCRED"):
        return ""
    pid, _, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return str(pid)
