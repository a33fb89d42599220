"""What doctor says of a server that is full: once, and with a line that makes room when it is run."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sequencer import Sequencer
from sequencer.doctor.diagnose import is_healthy
from sequencer.doctor.server import memory_findings, parse_info
from sequencer.errors import QueueFull

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


@pytest.mark.parametrize(
    ("used", "refusals", "level", "said"),
    [
        (
            "97",
            "count=1204",
            "problem",
            "the server is nearly full (97 bytes used of maxmemory 100 (97%)), and refused",
        ),
        (
            "95",
            "count=1",
            "problem",
            "and refused 1 command for want of memory since it started, or since CONFIG RESET",
        ),
        (
            "100",
            "count=7",
            "problem",
            "the server is full (100 bytes used of maxmemory 100 (100%)), and refused 7 comm",
        ),
        ("94", "count=7", "warning", "appends, and refused 7 commands for want of memory since it started, or since"),
        ("45", "count=7", "warning", "(45%), and refused 7 commands for want of memory since it started, or since"),
        ("97", "", "warning", "(97%); when it is full it refuses appends; to raise it: redis-cli"),
        ("97", "count=0", "warning", "(97%); when it is full it refuses appends; to raise it: redis-cli"),
        ("45", "odd", "ok", "(45%)"),
    ],
)
def test_a_server_that_has_refused_commands_says_how_many(used: str, refusals: str, level: str, said: str) -> None:
    """`INFO errorstats`, which a bare INFO has too, counts them."""
    info = {"maxmemory": "100", "used_memory": used} | ({"errorstat_OOM": refusals} if refusals else {})
    [finding] = memory_findings(info, "redis-cli")
    assert (finding.level, said in finding.text) == (level, True), finding.text


def test_an_append_that_was_refused_is_a_problem_while_there_is_hardly_room(start_server: Callable[..., str]) -> None:
    path = start_server()
    with Sequencer("jobs", f"unix://{path}") as seq:
        seq.append(1, group="g")
        command(path, "SETRANGE", "filling", "20000000", "x")
        command(path, "CONFIG", "SET", "maxmemory", "1")
        with pytest.raises(QueueFull):
            seq.append(2, group="g")
        said = command(path, "INFO", "memory")
        assert isinstance(said, bytes)
        used = int(parse_info(said.decode())["used_memory"])
        command(path, "CONFIG", "SET", "maxmemory", str(int(used * 1.03)))
        seq.append(2, group="g")
        [memory] = looked_at(path)["memory"]
        assert (memory.level, is_healthy([memory])) == ("problem", False), memory.text
        assert "and refused 1 command for want of memory since it started, or since CONFIG RESETSTAT: " in memory.text
        assert "CONFIG SET maxmemory " in memory.text
        command(path, "CONFIG", "SET", "maxmemory", "100mb")
        [memory] = looked_at(path)["memory"]
        assert memory.level == "warning"
        line = memory.text.partition("; to count anew: ")[2]
        assert line.endswith("CONFIG RESETSTAT")
        command(path, "CONFIG", "RESETSTAT")
        assert [one.level for one in looked_at(path)["memory"]] == ["ok"]


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
    assert (memory.level, "; to count anew: " in memory.text) == ("warning", True), "doctor itself was refused"
