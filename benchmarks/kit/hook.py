"""A receiver of alerts that is no use to anybody."""

from __future__ import annotations

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from ..load.fleet import MemberFailed


class Hook:
    """A receiver on this machine that answers each request with 500, or never; it keeps when they came."""

    def __init__(self, *, hangs: bool) -> None:
        self.times: list[float] = []
        self._ends, asked = threading.Event(), threading.Event()
        self._asked, times, ends = asked, self.times, self._ends

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                times.append(time.monotonic())
                asked.set()
                if hangs:
                    ends.wait()
                self.send_error(500)

            def log_message(self, format: str, *args: Any) -> None:
                """Nothing on standard error."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]  # whoever asked is gone
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def __enter__(self) -> Hook:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def wait(self, seconds: float) -> None:
        """Until it was asked. Raises MemberFailed."""
        if not self._asked.wait(seconds):
            raise MemberFailed("no request came")
