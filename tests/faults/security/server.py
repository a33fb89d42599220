"""A real server of the security fault test's own, on the loopback, in a directory that is gone afterwards; our
commands.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sequencer.errors import ServerUnavailable
from sequencer.server import find_binary

START_S = 10.0
COMMAND_S = 60.0
COMMAND = (sys.executable, "-P", "-c", "import sys; from sequencer_start import main; main()")
"""The installed command, whatever is on PATH."""


@dataclass(frozen=True, slots=True)
class OwnServer:
    """Where it is. The default user has no password and every right, and comes in by the socket only."""

    directory: Path
    port: int

    @property
    def socket(self) -> Path:
        return self.directory / "s"

    def url(self, user: str = "", secret: str = "") -> str:
        """What to connect to by the socket, as a user."""
        return f"unix://{user}:{secret}@{self.socket}" if user else f"unix://{self.socket}"


@contextmanager
def own_server(options: Sequence[str] = (), *, binary: str | None = None, port_option: str = "") -> Iterator[OwnServer]:
    """A server with these options, on a socket, and on a free port when its option ("port", "tls-port") is named.

    Raises ServerUnavailable with what it said when it does not start.
    """
    directory = Path(tempfile.mkdtemp(prefix="sqz-"))
    own = OwnServer(directory, free_port() if port_option else 0)
    lines = [f"dir {directory}", f"unixsocket {own.socket}", "unixsocketperm 700", 'save ""', "bind 127.0.0.1"]
    lines += [f"{port_option} {own.port}"] if port_option else []
    lines += ["port 0"] if port_option != "port" else []
    (directory / "conf").write_text("\n".join([*lines, *options, ""]))
    log = directory / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [binary or os.environ.get("SEQUENCER_TEST_BINARY") or find_binary(), str(directory / "conf")],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
        )
    try:
        _wait(process, own.socket, log)
        yield own
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(directory)


def _wait(process: subprocess.Popen[bytes], path: Path, log: Path) -> None:
    for _ in range(int(START_S / 0.01)):
        if process.poll() is not None:
            break
        if path.exists() and _answers(path):
            return
        try:
            process.wait(0.01)
        except subprocess.TimeoutExpired:
            continue
    raise ServerUnavailable(f"it did not start: {log.read_text(errors='replace').strip()[-300:]}")


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


def free_port() -> int:
    """A port of the loopback that nobody listens on now."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def run_command(
    words: Sequence[str], directory: Path, lines: str = "", *, program: Sequence[str] = COMMAND, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a `sequencer` command to its end in `directory`; keywords are further environment variables."""
    return subprocess.run(
        [*program, *words],
        input=lines,
        text=True,
        capture_output=True,
        timeout=COMMAND_S,
        cwd=directory,
        env=clean_environment() | environment,
        check=False,
    )


def clean_environment() -> dict[str, str]:
    """Ours without the settings of whoever runs this."""
    return {name: value for name, value in os.environ.items() if not name.startswith("SEQUENCER_")}
