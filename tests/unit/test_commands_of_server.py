"""How a line for a shell begins that sends a command to a server: right place, and never a password."""

from __future__ import annotations

import pytest

from sequencer.values.commands import server_command


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("", "redis-cli"),
        ("unix:///run/a b.sock?db=2", "redis-cli -s '/run/a b.sock'"),
        ("redis://host/3", "redis-cli -h host -p 6379"),
        ("redis://:geheim@host:7000", "redis-cli -h host -p 7000 --askpass"),
        (
            "rediss://shop:geheim@host:7000?ssl_ca_certs=/ca.pem&ssl_certfile=/c.pem&socket_timeout=1",
            "redis-cli -h host -p 7000 --tls --cacert /ca.pem --cert /c.pem --user shop --askpass",
        ),
    ],
)
def test_it_names_the_place_and_asks_for_a_password(url: str, said: str) -> None:
    assert server_command(url, "redis-cli", "python") == said
    assert "geheim" not in server_command(url, "", "python")


def test_without_such_a_program_python_sends_it() -> None:
    line = server_command("valkeys://shop:geheim@host/1", "", "/usr/bin/python3")
    assert line.startswith("/usr/bin/python3 -c 'import redis, sys; ")
    assert line.endswith(" rediss://shop@host/1")
    assert "getpass" in line
