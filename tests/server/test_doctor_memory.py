"""What doctor says of a server that is full: once, and with a line that makes room when it is run."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sequencer import Sequencer

from .conftest import command
from .test_doctor_server import INFO, looked_at

NEARLY = INFO | {"maxmemory": "100", "used_memory": "99"}
REDIS_CLI = """#!{python}
import sys
import redis

assert sys.argv[1] == "-s"
redis.Redis(unix_socket_path=sys.argv[2]).execute_command(*sys.argv[3:])
"""


def stand_in_for_redis_cli(folder: Path) -> None:
    """As much of redis-cli as the commands of doctor need."""
    (folder / "redis-cli").write_text(REDIS_CLI.format(python=sys.executable))
    (folder / "redis-cli").chmod(0o755)


def test_a_server_that_only_refuses_a_trial_is_full_and_nothing_else_is_said(
    start_server: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = start_server()
    monkeypatch.setattr("sequencer.doctor.diagnose.server_facts", lambda link: (NEARLY, {}, 0.0))
    with Sequencer("jobs", f"unix://{path}") as seq:
        seq.append(1, group="g")
        assert [one.level for one in looked_at(path)["memory"]] == ["warning"]
        command(path, "CONFIG", "SET", "maxmemory", "1")
        [memory] = looked_at(path)["memory"]
        assert (memory.level, memory.text.partition(":")[0]) == (
            "problem",
            "the server is full (99 bytes used of maxmemory 100 (99%))",
        )


@pytest.mark.parametrize("has_program", [True, False])
def test_the_line_that_makes_room_can_be_run(
    start_server: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_program: bool
) -> None:
    path = start_server()
    command(path, "CONFIG", "SET", "maxmemory", "1")
    monkeypatch.setenv("PATH", f"{tmp_path}:/nowhere")
    if has_program:
        stand_in_for_redis_cli(tmp_path)
    [memory] = looked_at(path)["memory"]
    line = memory.text.partition("or raise it: ")[2]
    assert line.startswith(f"redis-cli -s {path} CONFIG " if has_program else shlex.quote(sys.executable))
    subprocess.run(["/bin/sh", "-c", line], check=True, capture_output=True)
    [memory] = looked_at(path)["memory"]
    assert memory.level == "ok", memory.text
