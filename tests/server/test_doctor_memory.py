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

from ..support.redis_cli import stand_in_for_redis_cli
from .conftest import command
from .test_doctor_server import looked_at


@pytest.mark.parametrize(
    ("used", "refusals", "code"),
    [
        ("97", "count=1204", "memory full"),
        ("94", "count=7", "memory nearly full"),
        ("45", "count=7", "memory refused"),
        ("97", "", "memory nearly full"),
        ("45", "odd", "memory"),
    ],
)
def test_a_server_that_has_refused_commands_says_how_many(used: str, refusals: str, code: str) -> None:
    """`INFO errorstats`, which a bare INFO has too, counts them."""
    info = {"maxmemory": "100", "used_memory": used} | ({"errorstat_OOM": refusals} if refusals else {})
    [finding] = memory_findings(info, "redis-cli")
    assert finding.code == code
    assert finding.fields["refused"] == int(refusals.removeprefix("count=") or 0 if refusals != "odd" else 0)


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
        assert (memory.code, memory.fields["refused"], is_healthy([memory])) == ("memory full", 1, False)
        assert "CONFIG SET maxmemory " in memory.commands["fix"]
        command(path, "CONFIG", "SET", "maxmemory", "100mb")
        [memory] = looked_at(path)["memory"]
        assert memory.code == "memory refused"
        assert memory.commands["reset"].endswith("CONFIG RESETSTAT")
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
        stand_in_for_redis_cli(tmp_path, f"unix://{path}")
    [memory] = looked_at(path)["memory"]
    assert {one.level for check in ("rights", "invariants") for one in looked_at(path)[check]} == {"ok"}
    line = memory.commands["fix"]
    assert line.startswith(f"redis-cli -s {path} CONFIG " if has_program else shlex.quote(sys.executable))
    subprocess.run(["/bin/sh", "-c", line], check=True, capture_output=True)
    [memory] = looked_at(path)["memory"]
    assert memory.code == "memory refused", "doctor itself was refused"
