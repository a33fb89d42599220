"""The status of the master for others: `sequencer run --status`, by a Unix socket that only its user may open; and
systemd, by one datagram of text to the socket that NOTIFY_SOCKET names (sd_notify).
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...errors import ConfigurationError
from ...server.embedded import SOCKET_PATH_MAX, default_directory

VARIABLE = "NOTIFY_SOCKET"
ANSWER_S = 5.0
SEND_S = 0.2
"""Who asks and does not read is not waited for: the loop has other things to do."""


def socket_path(file: Path) -> Path:
    """Where the master of a file listens. Raises ConfigurationError where the path is too long for a socket."""
    name = hashlib.sha256(str(file.resolve()).encode()).hexdigest()[:12]
    path = default_directory() / f"run-{name}.sock"
    if len(os.fsencode(path)) > SOCKET_PATH_MAX:
        raise ConfigurationError("socket_path_too_long", path=str(path), most=SOCKET_PATH_MAX)
    return path


def ask(file: Path) -> dict[str, Any]:
    """What the master of this file says. Raises ConfigurationError where none runs."""
    path = socket_path(file)
    try:
        with socket.socket(socket.AF_UNIX) as link:
            link.settimeout(ANSWER_S)
            link.connect(os.fspath(path))
            said: dict[str, Any] = json.load(link.makefile())
            return said
    except (OSError, ValueError) as error:
        raise ConfigurationError("master_not_answering", file=[str(file)], path=str(path), error=str(error)) from error


class StatusSocket:
    def __init__(self, file: Path) -> None:
        self._path = socket_path(file)
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._path.unlink(missing_ok=True)
        self._link, mask = socket.socket(socket.AF_UNIX), os.umask(0o177)
        try:
            self._link.bind(os.fspath(self._path))
            self._link.listen(8)
        except BaseException:
            self._link.close()
            raise
        finally:
            os.umask(mask)
        self._link.setblocking(False)

    def answer(self, status: Callable[[], dict[str, Any]]) -> None:
        with suppress(OSError):
            while True:
                link, _ = self._link.accept()
                line = json.dumps(status()).encode()
                with link, suppress(OSError):
                    link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, len(line) + 65536)
                    link.settimeout(SEND_S)
                    link.sendall(line)

    def close(self) -> None:
        self._link.close()
        with suppress(OSError):
            self._path.unlink()


def notify(address: str, *lines: str) -> None:
    """As sd_notify does: `READY=1`, when the master works for the first time or again. Nobody waits for it at ""."""
    if address:
        address = f"\0{address[1:]}" if address.startswith("@") else address
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams:
            datagrams.settimeout(1.0)
            datagrams.sendto("\n".join(lines).encode(), address)
