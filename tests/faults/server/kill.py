"""The server killed under load, by way of keeping data: what was acknowledged and then gone.

`always` must lose nothing. For the others the loss is measured. A process that is killed leaves what it wrote to the
kernel; a machine that loses power does not. So "power cut" removes from the append-only file what was written in the
last second before the kill, which is what `everysec` allows; with `always` that would be a server that lies.
"""

from __future__ import annotations

import random
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ...support.judge.history import Event
from ...support.judge.judgement import Judgement, judge
from .found import Found
from .host import Host, running, workplace
from .load import Load, Spec, wait

RECOVER_S, START_S = 10.0, 30.0
SETTLE_S = 0.5
"""After a server came back with less than it had: until every consumer has been told that its lease is gone."""


KILLED = "server ended by SIGKILL"


@dataclass(frozen=True)
class Mode:
    """A way of keeping data."""

    name: str
    settings: tuple[str, ...]
    cut_s: float = 0.0
    """How much of the append-only file's end is removed after a kill, in seconds of writing."""
    may_lose: bool = True
    late_s: float = 0.0
    """How old a write may be that has not reached the file: it waits for an fsync that is slow, two seconds at most."""


_AOF = ("--appendonly", "yes", "--appendfsync")
ALWAYS = Mode("always", (*_AOF, "always"), may_lose=False)
MODES = (
    ALWAYS,
    Mode("everysec", (*_AOF, "everysec"), late_s=2.0),
    Mode("everysec, power cut", (*_AOF, "everysec"), cut_s=1.0, late_s=2.0),
    Mode("no persistence", ()),
)


class Sizes:
    """Keeps noting how large the append-only file was when: to cut it as a power failure would."""

    def __init__(self, host: Host) -> None:
        self._host, self._seen = host, list[tuple[float, int]]()
        self._is_ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._is_ended.wait(0.005):
            with suppress(OSError, ValueError):
                self._seen.append((time.monotonic(), self._host.aof.stat().st_size))

    def close(self) -> None:
        self._is_ended.set()
        self._thread.join()

    def cut(self, since: float) -> int:
        """Remove what was written since then; how many bytes."""
        path = self._host.aof
        size = path.stat().st_size
        kept = max((old for at, old in self._seen if at <= since and old <= size), default=0)
        with path.open("r+b") as file:
            file.truncate(kept)
        self._seen = [(at, old) for at, old in self._seen if at <= since and old <= kept]
        return size - kept


def kill_once(host: Host, load: Load, mode: Mode, sizes: Sizes) -> bool:
    """SIGKILL, perhaps a power cut, and a new start. Whether it took effect: something was cut where it should be."""
    killed = time.monotonic()
    host.kill()
    load.recorder.note("seen", kind=KILLED, at=time.monotonic())
    is_cut = not mode.cut_s or sizes.cut(killed - mode.cut_s) > 0
    host.start()
    settle_s = SETTLE_S if mode.may_lose else 0.0
    since = killed - mode.cut_s - mode.late_s - 0.05 if host.settings else 0.0
    load.recorder.note("fault", who="", kind="server killed", at=since, until=time.monotonic() + settle_s)
    if mode.cut_s and is_cut:
        load.recorder.note("seen", kind="tail of the append-only file removed")
    return is_cut


def under_kills(directory: Path, mode: Mode, kills: int, seed: int) -> tuple[Judgement, list[Event], list[str], bool]:
    """Load through so many kills, then drained: the judgement, the events, what else was wrong, and was it drained."""
    chance = random.Random(seed)
    host = Host(directory / "d", *mode.settings)
    load = Load(directory / "load", Spec(url=host.url, seed=seed, lease_s=2.0, rate=600.0, work_s=0.004))
    with running(host):
        sizes = Sizes(host)
        try:
            load.start()
            began = wait(lambda: load.count("ended") >= 50, START_S)
            for _ in range(kills):
                time.sleep(mode.cut_s + chance.uniform(0.1, 0.5))
                kill_once(host, load, mode, sizes)
            load.recorder.note("healed")
            time.sleep(SETTLE_S)
            wrong = load.crashes() + ([] if began else ["the load did not begin"])
            with host.link() as link:
                is_drained = load.drain(link)
        finally:
            load.stop()
            sizes.close()
    expected = ["server killed"] + (["tail of the append-only file removed"] if mode.cut_s else [])
    events = load.events()
    return judge(events, recover_s=RECOVER_S, expected=expected), events, wrong, is_drained


def lost_s(events: list[Event]) -> float:
    """How far before a kill the call of the earliest message that was acknowledged and lost began; the longest, in s.

    A producer may note only after the kill that it had its answer.
    """
    done = {(event.group, event.id) for event in events if event.what == "ended"}
    missing = {(event.group, event.id) for event in events if event.what == "appended"} - done
    lost = [event.at for event in events if event.what == "appending" and (event.group, event.id) in missing]
    kills = [event.at for event in events if event.kind == KILLED]
    spans = [min((kill - at for kill in kills if kill > at), default=0.0) for at in lost]
    return max(spans, default=0.0)


def kill(found: Found) -> None:
    """Each mode, killed several times."""
    kills = {"smoke": 1, "ci": 1, "nightly": 50}[found.scale]
    for mode in MODES if found.scale != "smoke" else (ALWAYS,):
        with workplace() as directory:
            judged, events, wrong, is_drained = under_kills(directory, mode, kills, found.seed)
        found.runs += judged.effects.get("server killed", 0)
        found.add(judged, may_lose=mode.may_lose, said=mode.name)
        for text in wrong + ([] if is_drained else ["it was not drained"]):
            found.problem(f"{mode.name}: {text}")
        said = f"{judged.losses} of {judged.messages} lost in {kills} kills"
        if judged.losses:
            said += f", from at most {lost_s(events):.2f} s before a kill"
        duplicates = f"{judged.duplicates} handled again, where lost acks allow {judged.duplicates_allowed}"
        found.figures[f"killed, {mode.name}"] = f"{said}; {duplicates}"
