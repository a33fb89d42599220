"""Own servers of databases, of Debian's packages: in a temporary directory, on a port of their own, killed by pid."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sequencer.outbox.drivers import connector
from sequencer.outbox.sql import Dialect
from sequencer.testing import wait_until

from .processes import children, kill

PACKAGES = "apt-get install -y --no-install-recommends mariadb-server postgresql"


class Database:
    """A server, or a file of SQLite."""

    kind: Dialect

    def __init__(self, directory: Path) -> None:
        self.directory, self._process = directory, None
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]

    _process: subprocess.Popen[bytes] | None

    @property
    def url(self) -> str:
        raise NotImplementedError

    def command(self) -> list[str]:
        raise NotImplementedError

    def connect(self) -> Any:
        return connector(self.url)()

    def query(self, sql: str) -> list[Any]:
        connection = self.connect()
        try:
            cursor = connection.cursor()
            cursor.execute(sql)
            return list(cursor.fetchall()) if cursor.description else []
        finally:
            connection.commit()
            connection.close()

    def start(self) -> None:
        """Start it, also again after `kill`."""
        with open(self.directory / "log", "ab") as log:
            self._process = subprocess.Popen(self.command(), stdout=log, stderr=log, **self._user())

        def answers() -> bool:
            with suppress(Exception):
                self.query("SELECT 1")
                return True
            return False

        wait_until(answers, timeout_s=60, what=f"{self.kind} to answer")

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        if self._process:
            for pid in (self._process.pid, *children(self._process.pid)):
                kill(pid, number)
            self._process.wait()
            self._process = None

    def _user(self) -> dict[str, Any]:
        return {}


class PostgreSQL(Database):
    kind: Dialect = "postgresql"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        if os.getuid() == 0:
            shutil.chown(directory, "postgres")
        paths = [*Path("/usr/lib/postgresql").glob("*/bin"), Path(shutil.which("postgres") or "/").parent]
        self._bin, self._data = next((one for one in paths if (one / "initdb").exists()), None), directory / "data"
        assert self._bin, f"no PostgreSQL here: {PACKAGES}"
        words = [self._bin / "initdb", "-D", self._data, "-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8"]
        subprocess.run([*map(str, words), "--locale=C"], check=True, stdout=subprocess.DEVNULL, **self._user())

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def command(self) -> list[str]:
        given = {"port": self.port, "listen_addresses": "127.0.0.1", "unix_socket_directories": self.directory}
        words = [f"-c{name}={value}" for name, value in {**given, "fsync": "off"}.items()]
        return [f"{self._bin}/postgres", "-D", str(self._data), *words]

    def _user(self) -> dict[str, Any]:
        return {"user": "postgres", "group": "postgres", "extra_groups": []} if os.getuid() == 0 else {}


class MariaDB(Database):
    kind: Dialect = "mysql"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._data = directory / "data"
        install = shutil.which("mariadb-install-db")
        assert install, f"no MariaDB here: {PACKAGES}"
        words = [install, "--no-defaults", f"--datadir={self._data}", "--auth-root-authentication-method=normal"]
        if os.getuid() == 0:
            shutil.chown(directory, "mysql")
            words.append("--user=mysql")
        subprocess.run([*words, "--skip-test-db"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)
        self.start()
        self.query("CREATE DATABASE app")
        self.kill()

    @property
    def url(self) -> str:
        return f"mysql://root@127.0.0.1:{self.port}/{'app' if (self._data / 'app').exists() else 'mysql'}"

    def command(self) -> list[str]:
        given = {"datadir": self._data, "port": self.port, "bind-address": "127.0.0.1", "skip-name-resolve": 1}
        more = {"socket": self.directory / "socket", "innodb-flush-log-at-trx-commit": 2, "innodb-fast-shutdown": 2}
        user = ["--user=mysql"] if os.getuid() == 0 else []
        words = [f"--{name}={value}" for name, value in {**given, **more}.items()]
        return [shutil.which("mariadbd") or "/usr/sbin/mariadbd", "--no-defaults", *words, *user]


class SQLite(Database):
    kind: Dialect = "sqlite"

    @property
    def url(self) -> str:
        return f"sqlite:///{self.directory / 'app.db'}"

    def start(self) -> None:
        self.query("PRAGMA journal_mode = WAL")


KINDS: dict[str, Callable[[Path], Database]] = {"postgresql": PostgreSQL, "mysql": MariaDB, "sqlite": SQLite}


@contextmanager
def database(kind: str) -> Iterator[Database]:
    """One that runs, without tables."""
    directory = Path(tempfile.mkdtemp(prefix="sqd-"))
    directory.chmod(0o755)
    found = KINDS[kind](directory)
    try:
        found.start()
        yield found
    finally:
        found.kill()
        shutil.rmtree(directory, ignore_errors=True)
