"""A receiver of alerts on this machine: it writes requests down, and answers well, wrongly, slowly or not at all."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, NamedTuple

Mode = Literal["ok", "500", "hang", "lie", "redirect", "close"]
REFUSAL = {"code": 19021, "msg": "sign match fail", "errcode": 310000, "errmsg": "sign not match", "status": "invalid"}
SUCCESS = {"code": 0, "errcode": 0, "status": "success", "msg": "ok"}


class HookRequest(NamedTuple):
    """What came."""

    path: str
    headers: dict[str, str]
    """By names in lower case."""
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class HookServer:
    """Answers each request by its mode, until it is stopped."""

    def __init__(self, mode: Mode, status: int, tls: ssl.SSLContext | None) -> None:
        self.mode: Mode = mode
        self.status, self.said = status, json.dumps(SUCCESS).encode()
        self.requests: list[HookRequest] = []
        self.stopped = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads, self._scheme = True, "https" if tls else "http"
        if tls:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self._server.server_port}"

    def url(self, path: str = "/hook") -> str:
        return f"{self._scheme}://{self.place}{path}"

    def stop(self) -> None:
        self.stopped.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _handler(server: HookServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            server.requests.append(HookRequest(self.path, headers, body))
            with suppress(OSError):  # whoever asked is gone
                self._answer()

        def _answer(self) -> None:
            match server.mode:
                case "ok":
                    self._say(server.status, server.said)
                case "500":
                    self._say(500, b"<html>sorry</html>")
                case "lie":
                    self._say(server.status, json.dumps(REFUSAL).encode())
                case "redirect":
                    self._say(302, b"", Location=server.url("/elsewhere"))
                case "hang":
                    server.stopped.wait()

        def _say(self, status: int, body: bytes, **headers: str) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing on standard error."""

    return Handler


@contextmanager
def hook_server(mode: Mode = "ok", *, status: int = 200, tls: ssl.SSLContext | None = None) -> Iterator[HookServer]:
    """A server for the time of a test. `status`: of its success, and of its lie."""
    server = HookServer(mode, status, tls)
    try:
        yield server
    finally:
        server.stop()
