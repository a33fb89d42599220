"""A primary that dies with what is on its way to its replica, and a Sentinel that promotes the replica.

The replica hears the primary through a slow line (`Line`), which breaks when the primary is killed: what it held is
gone, as with a machine that dies. Without `wait_replicas` the loss is measured; with it, no acknowledged append may be
lost, as there is one replica, and that one is promoted.
"""

from __future__ import annotations

import random
import shutil
import socket
import subprocess
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from sequencer.errors import SequencerError
from sequencer.net.endpoint import Endpoint
from sequencer.net.link import Link

from ...support.judge.judgement import judge
from .found import Found
from .host import Host, binaries, free_port, workplace
from .load import Load, Spec, wait

DOWN_MS = 500
"""After this silence Sentinel takes the primary for dead."""
QUICK = ("--repl-diskless-sync-delay", "0")
"""A replica begins to copy at once; the default is to wait five seconds for others."""
RECOVER_S = 20.0
SETTLE_S = 1.0
SPEC = Spec(rate=100.0, work_s=0.015)
"""With two producers and two consumers: some wait at any time, for only what waits can be lost."""


class Line:
    """Passes bytes to a port and back, each `delay_s` later; `cut` drops what is on its way, and all that follows."""

    def __init__(self, target: int, delay_s: float) -> None:
        self._target, self._delay_s = target, delay_s
        self._is_cut = threading.Event()
        self._sockets: list[socket.socket] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while not self._is_cut.is_set():
                one, _ = self._server.accept()
                other = socket.create_connection(("127.0.0.1", self._target))
                self._sockets += [one, other]
                for source, drain in ((one, other), (other, one)):
                    threading.Thread(target=self._pass, args=(source, drain), daemon=True).start()

    def _pass(self, source: socket.socket, drain: socket.socket) -> None:
        waiting: deque[tuple[float, bytes]] = deque()
        with suppress(OSError):
            while not self._is_cut.is_set():
                source.settimeout(max(0.0005, waiting[0][0] - time.monotonic()) if waiting else 0.05)
                with suppress(TimeoutError):
                    data = source.recv(65536)
                    if not data:
                        break
                    waiting.append((time.monotonic() + self._delay_s, data))
                while waiting and waiting[0][0] <= time.monotonic() and not self._is_cut.is_set():
                    drain.sendall(waiting.popleft()[1])

    def cut(self) -> None:
        self._is_cut.set()
        for one in (self._server, *self._sockets):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


class Cluster:
    """A primary, a replica behind a slow line, and one Sentinel, which suffices for a fault test of the client."""

    def __init__(self, directory: Path, delay_s: float, *, binary: str | None = None) -> None:
        self._sentinel: subprocess.Popen[bytes] | None = None
        self.sentinel_port = free_port()
        self.primary = Host(directory / "a", *QUICK, binary=binary, port=free_port())
        self.primary.start()
        self.line = Line(self.primary.port, delay_s)
        self.replica = Host(directory / "b", *QUICK, binary=binary, port=free_port())
        self.third = Host(directory / "c", *QUICK, binary=binary, port=free_port())
        try:
            self.replica.start("--replicaof", "127.0.0.1", str(self.line.port))
            if not wait(self._is_linked, RECOVER_S):
                raise RuntimeError("the replica did not connect")
            self._watch(directory)
        except BaseException:
            self.close()
            raise

    def _is_linked(self) -> bool:
        return self.replica.info("replication").get("master_link_status") == "up"

    def _watch(self, directory: Path) -> None:
        path = directory / "sentinel.conf"
        lines = (
            f"port {self.sentinel_port}",
            "bind 127.0.0.1",
            f"dir {directory}",
            f"sentinel monitor primary 127.0.0.1 {self.primary.port} 1",
            f"sentinel down-after-milliseconds primary {DOWN_MS}",
            # It would also correct the replica's way to the primary after this time.
            "sentinel failover-timeout primary 60000",
        )
        path.write_text("\n".join(lines) + "\n")
        program = shutil.which("redis-sentinel") or ""
        self._sentinel = subprocess.Popen([program, str(path)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if not wait(self._knows_replica, RECOVER_S):
            raise RuntimeError("Sentinel did not find the replica")

    def _knows_replica(self) -> bool:
        return bool(self.ask("SENTINEL", "REPLICAS", "primary"))

    @property
    def url(self) -> str:
        """Of the primary, by a Sentinel that is away and one that is there."""
        return f"redis+sentinel://127.0.0.1:1,127.0.0.1:{self.sentinel_port}/primary"

    def ask(self, *words: str) -> list[bytes]:
        """What Sentinel says; nothing while it can't be reached."""
        link = Link(Endpoint.from_url(f"redis://127.0.0.1:{self.sentinel_port}"))
        try:
            reply: list[bytes] = link.command(*words)
            return reply
        except SequencerError:
            return []
        finally:
            link.close()

    def is_promoted(self) -> bool:
        with suppress(SequencerError):  # it closes connections when its role changes
            return self.replica.info("replication").get("role") == "master"
        return False

    def replace(self) -> None:
        """A replica for the new primary."""
        self.third.start("--replicaof", "127.0.0.1", str(self.replica.port))

    def kill_primary(self) -> None:
        """The primary and what is on the line."""
        self.line.cut()
        self.primary.kill()

    def close(self) -> None:
        self.line.cut()
        if self._sentinel:
            self._sentinel.kill()
            self._sentinel.wait()
        self.primary.kill()
        self.replica.kill()
        self.third.kill()


@contextmanager
def clustered(directory: Path, delay_s: float, *, binary: str | None = None) -> Iterator[Cluster]:
    cluster = Cluster(directory, delay_s, binary=binary)
    try:
        yield cluster
    finally:
        cluster.close()


def fail_over(found: Found, seed: int, replicas: int, *, binary: str) -> tuple[int, int, float]:
    """One failover under load: messages, losses, and seconds until appends were acknowledged again."""
    delay_s = random.Random(seed).uniform(0.02, 0.1)
    with workplace() as directory, clustered(directory, delay_s, binary=binary) as cluster:
        options = {"wait_replicas": replicas} if replicas else None
        load = Load(directory / "load", replace(SPEC, sentinel=cluster.sentinel_port, seed=seed, options=options))
        try:
            load.start(producers=2)
            began = wait(lambda: load.count("ended") >= 30, RECOVER_S)
            time.sleep(random.Random(seed).uniform(0.1, 0.5))
            killed = time.monotonic()
            cluster.kill_primary()
            promoted = wait(cluster.is_promoted, RECOVER_S)
            cluster.replace()  # else nobody could confirm an append
            load.recorder.note("healed")
            back = wait(lambda: _first_after(load, killed) is not None, RECOVER_S)
            first = _first_after(load, killed)
            until = time.monotonic() + SETTLE_S
            load.recorder.note("fault", who="", kind="failover", at=killed - delay_s - 0.1, until=until)
            time.sleep(SETTLE_S)
            problems = load.crashes() + ([] if began and promoted and back else [f"{began=} {promoted=} {back=}"])
            with cluster.replica.link() as link:
                problems += [] if load.drain(link) else ["it was not drained"]
                found.check(link, [load.keys], "after the failover")
        finally:
            load.stop()
        events = load.events()
    judged = judge(events, recover_s=RECOVER_S * 2, expected=["failover"])
    found.add(judged, may_lose=not replicas, said=f"{replicas} replicas waited for:")
    for text in problems:
        found.problem(text)
    return judged.messages, judged.losses, (first or killed) - killed


def _first_after(load: Load, at: float) -> float | None:
    """When the new primary first acknowledged an append; an answer of the old one may be noted a moment late."""
    later = (event.at for event in load.events() if event.what == "appended" and event.at > at + DOWN_MS / 1000)
    return next(later, None)


def failover(found: Found) -> None:
    """Failovers without and with waiting for the replica."""
    if not shutil.which("redis-sentinel"):
        found.figures["failover"] = "left out: redis-sentinel is not installed (apt-get install redis-sentinel)"
        return
    servers = list(binaries().values())
    runs = {"smoke": 1, "ci": 1, "nightly": 20}[found.scale]
    for replicas in (0, 1):
        messages = losses = 0
        times: list[float] = []
        for number in range(runs):
            seed = found.seed + number
            more, lost, seconds = fail_over(found, seed, replicas, binary=servers[seed % len(servers)])
            messages, losses = messages + more, losses + lost
            times.append(seconds)
            found.runs += 1
        if times:
            said = f"with wait_replicas={replicas}" if replicas else "without waiting for replicas"
            found.figures[f"failover {said}"] = (
                f"{losses} of {messages} acknowledged appends lost in {runs} runs; appends went on after"
                f" {min(times):.1f} to {max(times):.1f} s"
            )
