"""TLS with certificates of openssl, made for this run: what is right works, and what is wrong is refused at once."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from sequencer import Sequencer
from sequencer.errors import ServerError, ServerNotUsable, ServerUnavailable
from sequencer.net.endpoint import CALL_TIMEOUT_S
from sequencer.server import find_binary

from .server.host import Host, free_port, running, workplace

pytestmark = pytest.mark.nightly

QUICK_S = CALL_TIMEOUT_S + 3.0
"""How long a refusal may take: one timeout of the socket, and a slow machine."""
KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=sequencer fault test")
Start = Callable[..., int]


@pytest.fixture(scope="module")
def certificates() -> Iterator[Path]:
    """ca, other (another CA), server, elsewhere (another host), expired, client: each NAME.pem and NAME.key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not on PATH; install openssl")

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=directory, check=True, capture_output=True, timeout=30)

    with workplace() as directory:
        for name in ("ca", "other"):
            openssl("req", "-x509", *KEY, "-keyout", f"{name}.key", "-out", f"{name}.pem", "-days", "2")
        for name, days, host in (
            ("server", "2", "IP:127.0.0.1"),
            ("elsewhere", "2", "DNS:elsewhere.example"),
            ("expired", "-1", "IP:127.0.0.1"),
            ("client", "2", "DNS:client.example"),
        ):
            (directory / "names").write_text(f"subjectAltName={host}\n")
            openssl("req", *KEY, "-keyout", f"{name}.key", "-out", "request")
            words = ("-in", "request", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "names")
            openssl("x509", "-req", *words, "-days", days, "-out", f"{name}.pem")
        yield directory


def tls_host(directory: Path, certificates: Path, binary: str, name: str, clients: str) -> tuple[Host, int]:
    port = free_port()
    words = ["--tls-port", str(port), "--tls-cert-file", f"{certificates}/{name}.pem", "--tls-auth-clients", clients]
    words += ["--tls-key-file", f"{certificates}/{name}.key", "--tls-ca-cert-file", f"{certificates}/ca.pem"]
    return Host(directory, *words, binary=binary), port


@pytest.fixture(scope="module")
def binary(certificates: Path) -> str:
    """The first server here that starts with TLS."""
    named = [os.environ.get("SEQUENCER_TEST_BINARY"), shutil.which("redis-server"), shutil.which("valkey-server")]
    for one in filter(None, [*named, find_binary()]):
        try:
            with workplace() as directory, running(tls_host(directory, certificates, one, "server", "no")[0]):
                return one
        except RuntimeError:
            continue
    pytest.skip("no server here speaks TLS; install redis-server (of Debian) or valkey-server built with TLS")


@pytest.fixture
def start(certificates: Path, binary: str) -> Iterator[Start]:
    """Starts a server with a certificate; its port."""
    with ExitStack() as stack:

        def start(name: str = "server", clients: str = "no") -> int:
            host, port = tls_host(stack.enter_context(workplace()), certificates, binary, name, clients)
            stack.enter_context(running(host))
            return port

        yield start


def work(url: str) -> None:
    with Sequencer("tls", url) as seq:
        seq.append_many({"body": n, "group": f"g{n % 4}"} for n in range(40))
        assert seq.consume(lambda message: None, until_empty=True).handled == 40


def is_refused(url: str, kind: type[ServerError], *codes: str) -> None:
    began = time.monotonic()
    with pytest.raises(kind) as caught, Sequencer("tls", url) as seq:
        seq.append(1, group="g")
    assert caught.value.code in codes
    assert "\n" not in str(caught.value)
    assert time.monotonic() - began < QUICK_S


def test_a_certificate_of_a_known_ca_works_and_no_other(start: Start, certificates: Path) -> None:
    port = start()
    work(f"rediss://127.0.0.1:{port}?ssl_ca_certs={certificates}/ca.pem")
    is_refused(f"rediss://127.0.0.1:{port}", ServerNotUsable, "certificate_refused")
    other = f"rediss://127.0.0.1:{port}?ssl_ca_certs={certificates}/other.pem"
    is_refused(other, ServerNotUsable, "certificate_refused")
    is_refused(f"redis://127.0.0.1:{port}", ServerUnavailable, "unreachable")


@pytest.mark.parametrize("name", ["elsewhere", "expired"])
def test_the_certificate_of_another_host_and_an_expired_one_are_refused(
    start: Start, certificates: Path, name: str
) -> None:
    url = f"rediss://127.0.0.1:{start(name)}?ssl_ca_certs={certificates}/ca.pem"
    is_refused(url, ServerNotUsable, "certificate_refused")


def test_a_server_that_asks_for_a_certificate_gets_one(start: Start, certificates: Path) -> None:
    url = f"rediss://127.0.0.1:{start(clients='yes')}?ssl_ca_certs={certificates}/ca.pem"
    work(f"{url}&ssl_certfile={certificates}/client.pem&ssl_keyfile={certificates}/client.key")
    # The server closes the connection, and its alert may or may not be read before that shows.
    is_refused(url, ServerError, "unreachable", "certificate_missing")
