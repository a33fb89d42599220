"""TLS with certificates: what is right works, and what is wrong is refused at once.

Certificates are made by openssl for this run. The server is the first on this machine that speaks TLS.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from sequencer.client import Sequencer
from sequencer.errors import ServerError, ServerNotUsable, ServerUnavailable
from sequencer.net.endpoint import SOCKET_TIMEOUT_S
from sequencer.server import find_binary

from .server import own_server

QUICK_S = SOCKET_TIMEOUT_S + 3.0
"""How long a refusal may take: one timeout of the socket, and a slow machine."""
REPEAT = "python -m tests.faults security --only tls"


@dataclass
class Tls:
    """What was tried and what was wrong."""

    cases: int = 0
    slowest_s: float = 0.0
    server: str = ""
    skipped: str = ""
    problems: list[str] = field(default_factory=list)

    def check(self, case: str, is_right: bool, found: object) -> None:
        self.cases += 1
        if not is_right:
            self.problems.append(f"{case}: {found}; repeat: {REPEAT}")


def prove_tls() -> Tls:
    """Every case once. Says in `skipped` what is missing for it."""
    tls = Tls()
    if shutil.which("openssl") is None:
        tls.skipped = "openssl is not on PATH; install openssl"
        return tls
    directory = Path(tempfile.mkdtemp(prefix="sqc-"))
    try:
        make_certificates(directory)
        binary = tls_binary(directory)
        if binary is None:
            tls.skipped = "no server here speaks TLS; install redis-server (of Debian) or valkey-server built with TLS"
            return tls
        tls.server = binary
        _prove_all(tls, binary, directory)
    finally:
        shutil.rmtree(directory)
    return tls


def make_certificates(directory: Path) -> None:
    """ca, other (another CA), server, elsewhere (another host), expired, client: each NAME.pem and NAME.key."""
    for name in ("ca", "other"):
        _openssl(directory, "req", "-x509", *_KEY, "-keyout", f"{name}.key", "-out", f"{name}.pem", "-days", "2")
    for name, days, host in (
        ("server", "2", "IP:127.0.0.1"),
        ("elsewhere", "2", "DNS:elsewhere.example"),
        ("expired", "-1", "IP:127.0.0.1"),
        ("client", "2", "DNS:client.example"),
    ):
        (directory / "names").write_text(f"subjectAltName={host}\n")
        _openssl(directory, "req", *_KEY, "-keyout", f"{name}.key", "-out", "request")
        words = ("-in", "request", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "names")
        _openssl(directory, "x509", "-req", *words, "-days", days, "-out", f"{name}.pem")


_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=sequencer fault test")


def _openssl(directory: Path, *words: str) -> None:
    subprocess.run(["openssl", *words], cwd=directory, check=True, capture_output=True, timeout=30)


def options(directory: Path, name: str = "server", clients: str = "no") -> list[str]:
    """The server's options for a certificate."""
    return [
        f"tls-cert-file {directory}/{name}.pem",
        f"tls-key-file {directory}/{name}.key",
        f"tls-ca-cert-file {directory}/ca.pem",
        f"tls-auth-clients {clients}",
    ]


def tls_binary(directory: Path) -> str | None:
    """The first server here that starts with TLS."""
    tried = [os.environ.get("SEQUENCER_TEST_BINARY"), shutil.which("redis-server"), shutil.which("valkey-server")]
    for binary in filter(None, [*tried, find_binary()]):
        try:
            with own_server(options(directory), binary=binary, port_option="tls-port"):
                return binary
        except ServerUnavailable:
            continue
    return None


def _prove_all(tls: Tls, binary: str, directory: Path) -> None:
    ca = f"ssl_ca_certs={directory}/ca.pem"
    own = f"&ssl_certfile={directory}/client.pem&ssl_keyfile={directory}/client.key"
    with own_server(options(directory), binary=binary, port_option="tls-port") as server:
        url = f"rediss://127.0.0.1:{server.port}?{ca}"
        _prove_work(tls, "certificate checked", url)
        _refused(tls, "no CA named", f"rediss://127.0.0.1:{server.port}", ServerNotUsable, "certificate was refused")
        other = f"rediss://127.0.0.1:{server.port}?ssl_ca_certs={directory}/other.pem"
        _refused(tls, "another CA", other, ServerNotUsable, "certificate was refused")
        _refused(
            tls, "redis:// to a TLS port", f"redis://127.0.0.1:{server.port}", ServerUnavailable, "rediss:// for TLS"
        )
    for name, case in (("elsewhere", "another host's certificate"), ("expired", "an expired certificate")):
        with own_server(options(directory, name), binary=binary, port_option="tls-port") as server:
            url = f"rediss://127.0.0.1:{server.port}?{ca}"
            _refused(tls, case, url, ServerNotUsable, "certificate was refused")
    with own_server(options(directory, clients="yes"), binary=binary, port_option="tls-port") as server:
        url = f"rediss://127.0.0.1:{server.port}?{ca}"
        _prove_work(tls, "client certificate", url + own)
        # The server closes the connection, and its alert may or may not be read before that shows.
        _refused(tls, "no client certificate", url, ServerError, "wants a client certificate")


def _prove_work(tls: Tls, case: str, url: str) -> None:
    try:
        with Sequencer("tls", url) as seq:
            seq.append_many({"body": n, "group": f"g{n % 4}"} for n in range(40))
            handled = seq.consume(lambda message: None, until_empty=True).handled
        tls.check(case, handled == 40, f"{handled} of 40 messages were handled")
    except ServerError as error:
        tls.check(case, False, error)


def _refused(tls: Tls, case: str, url: str, kind: type[ServerError], said: str) -> None:
    began = time.monotonic()
    try:
        with Sequencer("tls", url) as seq:
            seq.append(1, group="g")
        tls.check(case, False, "it was accepted")
    except ServerError as error:
        took_s = time.monotonic() - began
        tls.slowest_s = max(tls.slowest_s, took_s)
        is_right = isinstance(error, kind) and said in str(error) and "\n" not in str(error) and took_s < QUICK_S
        tls.check(case, is_right, f"{type(error).__name__} after {took_s:.1f} s: {error}")
