"""Cases of print mode: an output that stands still, a printer that does, lines that were torn, no temporary folder."""

from __future__ import annotations

import json
import os
import select
import signal
from pathlib import Path

from .case import Case, case
from .cases_stops import stopping
from .scene import LeftOut, Running, Scene

CASES: list[Case] = []
LEASE_S = 1.0
LEASE = ("--lease", str(LEASE_S))
LARGE = "x" * 300_000
"""More than a pipe holds."""
LATE_S = 12.0
"""How long a control is given in which somebody is to be missed for a lease, with looks once a second."""


def _read(fd: int) -> bytes:
    """What there is to read now."""
    return os.read(fd, 2**20) if select.select([fd], [], [], 0)[0] else b""


def _printers(scene: Scene, *words: str, n: int) -> tuple[Running, int]:
    """Print mode into a pipe that nobody reads yet: the command, and the end to read."""
    reader, writer = os.pipe()
    scene.keep(os.fdopen(reader, "rb", closefd=True))
    with os.fdopen(writer, "wb") as output:
        running = scene.consume(*words, n=n, app=False, stdout=output)
    return running, reader


def _holder(scene: Scene, running: Running) -> int:
    """The consumer that holds the lock of the output, as the kernel says."""
    if not Path("/proc/locks").exists():
        raise LeftOut("who holds a lock is not said here: there is no /proc/locks")

    def holders() -> list[int]:
        rows = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
        return [pid for pid in running.consumers() for row in rows if row[1] == "POSIX" and row[4] == str(pid)]

    return scene.wait(holders, "a consumer holds the output")[0]


@case(CASES, nobody_looks="a frozen consumer")
def frozen_printer(scene: Scene) -> None:
    """Who holds the output's lock stands still: the others go on within about a lease."""
    for number in range(4):
        scene.append(f"{number}", {"large": LARGE})
    running, reader = _printers(scene, *LEASE, "--until-empty", n=2)
    frozen = _holder(scene, running)
    scene.consumers(running, 2)
    scene.signal(signal.SIGSTOP, [frozen], "of the consumer that prints")
    printed = bytearray()

    def drain() -> bool:
        printed.extend(_read(reader))
        return running.status is not None

    scene.expect(drain, "the others print after a frozen consumer", control_s=LATE_S)
    while piece := _read(reader):
        printed.extend(piece)
    assert running.status == 0, f"exit status {running.status}, not 0"
    assert running.told("consumer killed") == 1, "it is not said once that the frozen consumer was killed"
    lines = bytes(printed).splitlines()
    whole = [line for line in lines if line.startswith(b"{") and line.endswith(b"}")]
    assert {json.loads(line)["id"] for line in whole} == {f"{n}-0" for n in range(4)}, "not all was printed whole"
    assert len(lines) - len(whole) <= 1, "more than one line was torn"


@case(CASES, kills_while_output_stands="was killed")
def pager(scene: Scene) -> None:
    """`| less`: nobody reads for several leases. Nobody is killed, and it is said once."""
    for number in range(4):
        scene.append(f"{number}", {"large": LARGE})
    running, reader = _printers(scene, *LEASE, "--until-empty", n=2)
    scene.wait(lambda: running.told("output blocked") or running.told("consumer killed"), "several leases pass")
    scene.pass_time(3 * LEASE_S)
    assert not running.told("consumer killed"), "a consumer was killed while nobody reads"
    assert running.told("output blocked") == 1, f"it is said {running.told('output blocked')} times, not once"
    printed = bytearray()

    def drain() -> bool:
        printed.extend(_read(reader))
        return running.status is not None

    scene.wait(drain, "all is printed once somebody reads")
    while piece := _read(reader):
        printed.extend(piece)
    assert running.status == 0, f"exit status {running.status}, not 0"
    ids = [json.loads(line)["id"] for line in bytes(printed).splitlines()]
    assert sorted(ids) == [f"{number}-0" for number in range(4)], f"not each line once: {ids}"
    scene.faults["an output that nobody reads"] += 1


@case(CASES, torn_line_stays="is not whole")
def torn_line(scene: Scene) -> None:
    """A consumer is killed in the middle of a line: the first line of the next run into that file is whole."""
    scene.append("a", {"large": LARGE})
    running, reader = _printers(scene, *LEASE, n=1)
    first = _holder(scene, running)
    for stage in (1, 2, 3):
        if stage == 2:  # a consumer that hears of its interruption would leave the line
            scene.signal(signal.SIGSTOP, [first], "of the consumer that prints")
        scene.signal(signal.SIGINT, [running.pid], f"of stage {stage}")
        scene.wait(lambda stage=stage: running.told("service stopping") == stage, f"stage {stage}")  # type: ignore[misc]
    scene.wait(lambda: running.status is not None, "the command ends")
    path = scene.directory / "printed"
    with path.open("wb") as file:
        while piece := _read(reader):
            file.write(piece)
    assert path.stat().st_size, "nothing was printed"
    assert not path.read_bytes().endswith(b"\n"), "the line was not torn"
    with path.open("ab") as file:
        again = scene.consume(*LEASE, "--until-empty", app=False, stdout=file)
        scene.expect_end(again, 0)
    lines = path.read_bytes().splitlines()
    assert len(lines) == 2, "the first line of the next run is not whole"
    assert json.loads(lines[1])["id"] == "a-0", "another message was printed"


@case(CASES, lock_in_a_folder="not 0")
def no_temporary_folder(scene: Scene) -> None:
    """No folder for temporary files, as in a container that can't be written: print mode and --exec work."""
    if not hasattr(os, "memfd_create"):
        raise LeftOut("a file in memory is Linux's; elsewhere the lock needs a temporary folder")
    for number, words in enumerate(((), ("--exec", "cat >> printed"))):
        scene.append(f"{number}", {})
        running = scene.consume(*words, "--until-empty", app=False, changed=["no-temporary-folder"])
        scene.expect_end(running, 0)
        printed = running.printed if not words else (scene.directory / "printed").read_text()
        assert json.loads(printed)["id"] == f"{number}-0", "another message was printed"
        scene.faults["no temporary folder"] += 1
    running = scene.consume(app=False, changed=["no-temporary-folder"])
    scene.consumers(running, 1)
    scene.signal(signal.SIGTERM, [running.pid], "to the supervisor, without a temporary folder")
    stopping(scene, running)
    scene.expect_end(running, 0)
