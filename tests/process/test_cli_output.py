"""What commands print into a full disk, into a pipe that nobody reads, and onto small and old terminals."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from sequencer import Sequencer
from sequencer.testing import wait_until

from .test_cli_unknown_queue import MORE, of_a_queue

if TYPE_CHECKING:
    from .conftest import Cli

PATIENCE_S = 30.0
ODD = ["a b", "it's", "\u202ex\x85"]
"""Parts of a group, each of which would be another in a careless command line."""
OTHERS = ["--help", "--version", "acl admin", "append jobs", "configure jobs", "server status", "demo --help", "info"]


def written_to(cli: Cli, words: list[str], stdout: int) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [cli.program, *words],
        cwd=cli.directory,
        env=cli.environment | {"SEQUENCER_HOME": str(cli.directory / "home")},
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        timeout=PATIENCE_S,
        check=False,
    )


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
@pytest.mark.parametrize("name", [*of_a_queue(), *OTHERS, "consume jobs --until-empty --exec true --json"])
def test_no_command_breaks_where_nobody_takes_what_it_says(cli: Cli, make: Callable[..., Sequencer], name: str) -> None:
    queue = make("jobs", max_attempts=1)
    is_known, is_failed = name in ("get", "cancel", "reschedule"), name in ("resume", "skip", "unskip", "dead show")
    for n in range(0 if is_known or is_failed else 3):  # for a run each
        queue.append(n, f"g{n}", id=f"m{n}")
    words = [*name.split(), *([] if " jobs" in f" {name}" or name in OTHERS else ["jobs"]), *MORE.get(name, ())]
    statuses, said = [], []
    for kind in ("read", "closed", "full"):
        if is_known:
            queue.append(1, "a", id="m", replace=True, delay=600)
        if is_failed:
            fail(queue, is_dead=name == "dead show")
        if name == "unskip":
            queue.skip("a")
        reader, writer = os.pipe() if kind != "full" else (-1, os.open("/dev/full", os.O_WRONLY))
        if kind == "closed":
            os.close(reader)
        done = written_to(cli, words, writer)
        os.close(writer)
        if kind == "read":
            os.close(reader)
        statuses.append(done.returncode)
        said.append(done.stderr.decode())
    assert not any("Traceback" in text or "Exception ignored" in text for text in said), said
    assert statuses[0] in (0, 4), said[0]
    assert statuses[1] == statuses[0], "who reads it changes nothing"
    assert statuses[2] == (statuses[0] or 1), said[2]
    assert said[2].count("error: standard output can't be written: No space left on device\n") == 1


def fail(queue: Sequencer, *, is_dead: bool) -> None:
    """Leave a group `a` with a failed head, or a dead letter m."""
    if queue.dead() or queue.parked():
        return
    queue.append(1, "a", id="m" if is_dead else None)
    with queue.claim() as lease:
        message = next(iter(lease))
        if is_dead:
            lease.dead_letter(message, "no")
        else:
            lease.park(message, "no")


def on_terminal(cli: Cli, *words: str, columns: int, rows: int = 24, until: str = "", **environment: str) -> str:
    """What a command writes to a terminal of this size, to its end, or until a text is there."""
    own, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    env = {name: value for name, value in cli.environment.items() if name not in ("COLUMNS", "LINES")}
    with subprocess.Popen(
        [cli.program, *words],
        cwd=cli.directory,
        env=env | {"TERM": "xterm"} | environment,
        stdin=subprocess.DEVNULL,
        stdout=its,
        stderr=its,
    ) as process:
        os.close(its)
        seen, end = b"", time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            if not select.select([own], [], [], 0.1)[0]:
                continue
            try:
                piece = os.read(own, 65536)
            except OSError:  # its last holder has ended
                break
            seen += piece
            if not piece or (until and until in seen.decode(errors="replace")):
                break
        process.terminate()
    os.close(own)
    return seen.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("columns", [40, 80])
def test_a_group_is_copied_from_a_narrow_terminal(cli: Cli, seq: Sequencer, columns: int) -> None:
    seq.append(1, ODD, id="an id of 40 characters, with blanks in it")
    shown = on_terminal(cli, "groups", "jobs", columns=columns).splitlines()
    assert "\u202e" not in shown[1]
    line = shown[1]
    group = line[: line.index("$'\\xe2") + len("$'\\xe2\\x80\\xaex\\xc2\\x85'")]
    assert "'an id of 40 characters, with blanks in it'" in line
    done = subprocess.run(
        ["bash", "-c", f"{cli.program} explain jobs {group} --json"],
        env=cli.environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (json.loads(done.stdout)["group"], json.loads(done.stdout)["reason"]) == (ODD, "due")


def test_a_watch_fits_the_screen_with_trouble_first(cli: Cli, make: Callable[..., Sequencer]) -> None:
    for n in range(12):
        make(f"queue-{n:02}").append(1, "a")
    with make("queue-09").claim() as lease:
        lease.park(next(iter(lease)), "no")
    shown = on_terminal(cli, "info", "--watch", columns=60, rows=8, until="more")
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown).strip().splitlines()
    assert lines[0].split()[:2] == ["queue", "backlog"]
    assert lines[1].startswith("queue-09 ")
    assert len(lines) <= 7
    assert lines[-1].startswith("and 7 more")
    assert max(map(len, lines)) <= 60


def test_a_watch_ends_when_nobody_reads_it(cli: Cli, seq: Sequencer) -> None:
    seq.append(1, "a")
    watch = cli.piped("info", "jobs", "--watch", "--interval", 0.1)
    assert watch.process.stdout
    watch.process.stdout.close()
    assert watch.ended() == 0
    assert watch.stderr == ""


@pytest.mark.parametrize(
    "environment", [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C"}, {"LC_ALL": "C", "PYTHONIOENCODING": "ascii"}]
)
def test_an_ascii_terminal_gets_ascii(cli: Cli, seq: Sequencer, environment: dict[str, Any]) -> None:
    seq.append("\u4e2d", ["müller"], id="\xfc")
    for words in (
        ("groups", "jobs"),
        ("peek", "jobs", "müller"),
        ("explain", "jobs", "müller"),
        ("get", "jobs", "müller", "--id", "ü"),
    ):
        shown = on_terminal(cli, *words, columns=80, **environment)
        assert shown
        assert shown.isascii()
        as_json = on_terminal(cli, *words, "--json", columns=80, **environment)
        assert as_json.isascii()
        assert "müller" in str(json.loads(as_json))
    table = on_terminal(cli, "groups", "jobs", columns=80, **environment)
    assert "$'m\\xc3\\xbcller'" in table
    assert on_terminal(cli, "explain", "jobs", "ö", columns=80, **environment).isascii()
    wrong = on_terminal(cli, "explain", "jöbs", "a", columns=80, **environment)
    assert wrong.startswith("error: queue 'j\\xf6bs' must be ")
    printed = on_terminal(cli, "consume", "jobs", "--until-empty", columns=200, **environment)
    assert printed.isascii()
    assert '"group":["m\\u00fcller"]' in printed


def test_a_log_on_an_ascii_terminal_is_ascii(cli: Cli, seq: Sequencer) -> None:
    seq.append(1, "müller")
    words = ("consume", "jobs", "--exec", "exit 1", "--until-empty", "--max-attempts", "1")
    for kind in ("text", "json"):
        shown = on_terminal(cli, "--log-format", kind, *words, columns=80, LC_ALL="C")
        wait_until(seq.parked, PATIENCE_S)
        seq.resume("müller")
        assert "group parked" in shown
        assert shown.isascii()
    assert any("müller" in str(json.loads(line).get("group")) for line in shown.splitlines())
