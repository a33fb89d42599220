"""What `--http` serves for programs that watch a service, in a daemon thread: /metrics, /live and /ready."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import Any

from ..errors import ConfigurationError
from ..texts.events import event
from .supervisor import Supervisor

STUCK_S = 10.0
"""A supervisor whose loop did not turn for this time is not live; it turns ten times a second."""
REQUEST_S = 10.0
"""Who connects and sends nothing, or does not read, is given up after this time."""
END_S = 0.1
"""So long an end may wait for its thread."""
Said = dict[str, Any]


class Health:
    """What a supervisor says of itself, asked from any thread."""

    def __init__(self, supervisor: Supervisor[Any]) -> None:
        self._supervisor, self._were_connected = supervisor, False

    def live(self) -> Said:
        return {"ok": time.monotonic() - self._supervisor.turned_at < STUCK_S}

    def ready(self) -> Said:
        """Once all first consumers are connected, as long as the server answers."""
        pools = [*self._supervisor.pools]
        starting = [pool.queue for pool in pools if not (self._were_connected or pool.is_connected)]
        self._were_connected = not starting
        is_answering = not self._supervisor.is_away
        return {"ok": not starting and is_answering, "queues_starting": starting, "server_answers": is_answering}


@contextmanager
def serving(address: str, supervisor: Supervisor[Any]) -> Iterator[str]:
    """Within, this is served, at the address that is returned. Raises ConfigurationError."""
    try:
        from ..metrics.families import exposition
        from ..metrics.supervisor import SupervisorCollector
    except ImportError as error:
        raise ConfigurationError("metrics_missing", error=str(error)) from error
    collector = SupervisorCollector(lambda: [pool.numbers for pool in [*supervisor.pools]])
    health = Health(supervisor)
    views: dict[str, Callable[[], Said]] = {"/live": health.live, "/ready": health.ready}

    class Handler(BaseHTTPRequestHandler):
        timeout = REQUEST_S

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            status, text, kind = 404, b"not found\n", "text/plain"
            if path == "/metrics":
                status, (text, kind) = 200, exposition(collector)
            elif path in views:
                said = views[path]()
                status, text, kind = 200 if said["ok"] else 503, json.dumps(said).encode() + b"\n", "application/json"
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            """Nothing: probes come each second."""

    try:
        server = _Server(address, Handler)
    except OSError as error:
        raise ConfigurationError("http_address_refused", address=address, error=str(error)) from error
    threading.Thread(target=server.serve_forever, args=[END_S], name="sequencer-http", daemon=True).start()
    supervisor.emitter.emit(event("http started", "", address=server.name))
    try:
        yield server.name
    finally:
        server.shutdown()
        server.server_close()


class _Server(ThreadingTCPServer):
    """Raises OSError. Not HTTPServer, which asks the name service for its own name."""

    allow_reuse_address = daemon_threads = True

    def __init__(self, address: str, handler: type[BaseHTTPRequestHandler]) -> None:
        host, _, port = address.rpartition(":")
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host.strip("[]"), int(port)), handler)
        self.name = f"{host}:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Who asked went away, or was too slow."""
