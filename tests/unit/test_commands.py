"""Lines for a shell name the right server, and never a password."""

from __future__ import annotations

import re
import shlex
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sequencer.doctor.server import admin_command
from sequencer.net.endpoint import Endpoint
from sequencer.net.link import Link
from sequencer.texts.commands import ONLY_PYTHON, command, line, name_server, server_named
from sequencer.texts.words import named, plain


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("unix:///run/a b.sock?db=2", "redis-cli -s '/run/a b.sock' -n 2"),
        ("redis://host/3", "redis-cli -h host -p 6379 -n 3"),
        ("redis://:geheim@host:7000", "redis-cli -h host -p 7000 --askpass"),
        (
            "rediss://shop:geheim@host:7000?ssl_ca_certs=/ca.pem&ssl_certfile=/c.pem&socket_timeout=1",
            "redis-cli --tls -h host -p 7000 --user shop --cacert /ca.pem --cert /c.pem --askpass",
        ),
    ],
)
def test_it_names_the_place_and_asks_for_a_password(monkeypatch: pytest.MonkeyPatch, url: str, said: str) -> None:
    link = Link(Endpoint.from_url(url))
    monkeypatch.setattr(link, "connection", link.endpoint.make)
    assert admin_command(link).replace("valkey-cli", "redis-cli") == said


def test_lines_name_the_server_that_the_call_named() -> None:
    assert server_named() == ""
    name_server("redis://10.0.0.7/2")
    try:
        assert server_named() == "redis://10.0.0.7/2"
        assert command("explain", "jobs", "a b") == "sequencer explain jobs 'a b' --redis redis://10.0.0.7/2"
        marked = "sequencer skip --id=-m --namespace x --redis redis://10.0.0.7/2 -- jobs -g"
        assert command("skip", "jobs", "-g", namespace="x", options=["--id=-m"]) == marked
    finally:
        name_server("")
    assert command("explain", "jobs") == "sequencer explain jobs"


RAW = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
WORDS = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=8)


@given(st.lists(WORDS, min_size=1, max_size=4))
def test_the_words_of_a_command_are_one_line_and_mean_themselves(values: list[str]) -> None:
    line = command("explain", *values)
    assert not RAW.search(line)
    if not any(plain(value) != value for value in values):
        words = shlex.split(line)
        assert [word for word in words[2:] if word != "--"] == [value for value in values if value != "--"]


def test_a_shell_reads_control_characters_as_they_are() -> None:
    values = ["a b", "it's", "new\nline", "\x1b[2J\\'", "\u2028", "\x85", "é", ""]
    line = command("explain", *values).removeprefix("sequencer explain")
    done = subprocess.run(["bash", "-c", f"printf '%s|' {line}"], capture_output=True, check=True)
    assert done.stdout.decode() == "".join(f"{value}|" for value in values)


def test_what_no_shell_can_carry_gets_no_command() -> None:
    assert command("skip", "jobs", "a\0b") == ONLY_PYTHON
    assert line("sequencer get QUEUE --id ID", {"queue": "jobs", "id": "m\0n"}) == ONLY_PYTHON
    repeated = line(
        "sequencer resume QUEUE --done STEPS --attempt RUNS", {"queue": "q", "steps": ["a", "-b"], "runs": [1]}
    )
    assert repeated == "sequencer resume q --done a --done=-b --attempt 1"
    shown = named(["a\0b"])
    read = subprocess.run(["bash", "-c", f"printf %s {shown}"], capture_output=True, check=True).stdout
    assert read != b"a", "pasted, it is no other group"


@pytest.mark.parametrize("url", ["redis://:geheim@[::1", "redis://h?Password=geheim", "redis://u:ge@heim@h/1"])
def test_no_line_names_a_server_with_its_password(url: str) -> None:
    name_server(url)
    try:
        assert command("explain", "jobs", "$SEQUENCER_REDIS") == (
            "sequencer explain jobs '$SEQUENCER_REDIS' --redis \"$SEQUENCER_REDIS\""
        )
    finally:
        name_server("")
