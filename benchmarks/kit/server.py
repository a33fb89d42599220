"""What scenarios that measure the server itself need: a server that writes no file, and a look at what it spends.

Without a URL the server is `redis-server` of the PATH (else the embedded one), on a Unix socket, with its append-only
file off: writing it costs the same whatever the commands came from, and its rewrites fork the process at any time.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from sequencer.doctor.server import parse_info
from sequencer.errors import ServerError
from sequencer.net.endpoint import Endpoint
from sequencer.net.link import Link
from sequencer.server import EmbeddedServer

SETTLE_S = 60.0
"""How long to wait for keys that the server deletes in the background: a million take a second or two."""
POLL_S = 0.01
PREFIX = "latency_percentiles_usec_"
PERCENTILES = "latency-tracking-info-percentiles"


@contextmanager
def bare_server(redis: str | None) -> Iterator[str]:
    """The server given, else one of its own without files, gone afterwards. Raises ServerError."""
    if redis is not None:
        yield redis
        return
    with tempfile.TemporaryDirectory(prefix="sequencer-bench-") as name:
        embedded = EmbeddedServer(Path(name) / "server", binary=shutil.which("redis-server"))
        with embedded, Gauge(embedded.url) as gauge:
            gauge.link.command("CONFIG", "SET", "appendonly", "no")
            yield embedded.url


class Calls(NamedTuple):
    """How long calls of scripts took, in us. None where the server keeps no such figures (before Redis 7)."""

    p999_us: float | None
    max_us: float | None


class Gauge:
    """Reads what the server has used. A context manager: its connection is closed at the end."""

    def __init__(self, url: str) -> None:
        self.link = Link(Endpoint.from_url(url))

    def __enter__(self) -> Gauge:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.link.close()

    def info(self, section: str) -> dict[str, str]:
        """Raises ServerError."""
        return parse_info(self.link.command("INFO", section).decode("utf-8", "replace"))

    def cpu_s(self) -> float:
        """Processor time of all threads of the server since it began. Raises ServerError."""
        found = self.info("cpu")
        return float(found["used_cpu_user"]) + float(found["used_cpu_sys"])

    def settle(self) -> None:
        """Wait until what was deleted before is freed: it would count for whoever comes next. Raises ServerError."""
        until = time.monotonic() + SETTLE_S
        while int(self.info("memory").get("lazyfree_pending_objects", 0)) and time.monotonic() < until:
            time.sleep(POLL_S)

    def used_memory(self) -> int:
        """Bytes in use, without those of connections, once they no longer change. Raises ServerError."""
        self.settle()
        with suppress(ServerError):  # only jemalloc knows it
            self.link.command("MEMORY", "PURGE")
        before, until = -1, time.monotonic() + SETTLE_S
        while True:
            found = self.info("memory")
            used = int(found["used_memory"]) - int(found.get("mem_clients_normal", 0))
            if abs(used - before) < 512 or time.monotonic() > until:
                return used
            before = used
            time.sleep(POLL_S * 10)  # its timer, ten times a second, goes on with tables that are being resized

    def reset_calls(self) -> None:
        """Begin the server's statistics again. Raises ServerError."""
        self.link.command("CONFIG", "RESETSTAT")

    def calls(self) -> Calls:
        """Of all calls of scripts since `reset_calls`. Raises ServerError."""
        return read_calls(self.info("latencystats"))

    @contextmanager
    def percentiles(self) -> Iterator[None]:
        """A server that tells of p99.9 and the longest call; its setting is put back. Raises ServerError."""
        found = self.link.command("CONFIG", "GET", PERCENTILES)
        if not found:
            yield
            return
        self.link.command("CONFIG", "SET", PERCENTILES, "99.9 100")
        try:
            yield
        finally:
            self.link.command("CONFIG", "SET", PERCENTILES, found[1])


def read_calls(found: Mapping[str, str]) -> Calls:
    """Of `latency_percentiles_usec_evalsha` and its like: `p99.9=1234.5,p100=2345.6`. Pure.

    EVAL, which a connection sends once for each script and which may have to compile it, counts for the longest only.
    """
    sent, whole = (
        {rank: float(us) for rank, us in re.findall(r"p([0-9.]+)=([0-9.]+)", found.get(f"{PREFIX}{name}", ""))}
        for name in ("evalsha", "eval")
    )
    return Calls(sent.get("99.9"), max((one["100"] for one in (sent, whole) if "100" in one), default=None))


@contextmanager
def server(url: str | None) -> Iterator[str]:
    """The server to measure: the one given, else one of its own that is gone afterwards. Raises ServerError."""
    if url is not None:
        yield url
        return
    with (
        tempfile.TemporaryDirectory(prefix="sequencer-bench-") as name,
        EmbeddedServer(Path(name) / "server") as embedded,
    ):
        yield embedded.url
