"""The server's clock set forward and back by an hour under load: tokens and stamps go on, and so does order.

libfaketime gives the server a clock of its own (not its monotonic one). Forward: every lease ends at once. Back: the
shard's clock goes on from where it was, so that tokens and stamps never go back; groups that became due by the earlier
clock wait until the server's clock is there again, or until their next append. How many is counted.
"""

from __future__ import annotations

import glob
import time
from pathlib import Path

from sequencer.net.link import Link
from sequencer.store.keys import ShardKeys
from sequencer.testing.judge.history import Event
from sequencer.testing.judge.judgement import judge

from .found import Found
from .host import Host, binaries, running, workplace
from .load import Load, Spec, wait

JUMP_S = 3600
RECOVER_S = 10.0
LIBRARY = "libfaketime.so.1"
MISSING = "left out: libfaketime is not installed (apt-get install faketime)"


def library() -> str:
    """Where libfaketime is, or ""."""
    places = ("/usr/lib/*/faketime/", "/usr/lib/faketime/", "/usr/local/lib/faketime/", "/opt/homebrew/lib/faketime/")
    return next((path for place in places for path in glob.glob(place + LIBRARY)), "")


class Clock:
    """The clock of one server: its offset stands in a file, which libfaketime reads each time."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._path = directory / "offset"
        self.set(0)
        self.environment = {
            "LD_PRELOAD": library(),
            "FAKETIME_TIMESTAMP_FILE": str(self._path),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_DONT_RESET": "1",
        }

    def set(self, offset_s: int) -> None:
        """Seconds ahead of the true time; below 0, behind."""
        fresh = self._path.with_suffix(".new")
        fresh.write_text(f"{offset_s:+d}\n")
        fresh.replace(self._path)


def shown(link: Link) -> float:
    """The server's time less the true one, in seconds."""
    seconds, micros = link.command("TIME")
    return float(int(seconds) + int(micros) / 1e6 - time.time())


def delayed(link: Link, keys: ShardKeys) -> int:
    """Groups that a consumer will see only when the server's clock has gone on for more than a minute."""
    now_us = int(link.command("TIME")[0]) * 1_000_000
    return int(link.command("ZCOUNT", keys.schedule, now_us + 60_000_000, 8_000_000_000_000_000))


def stamps_back(events: list[Event]) -> int:
    """Appends of one producer to one group that got a lower stamp than its one before."""
    last: dict[tuple[str, str], int] = {}
    count = 0
    for event in events:
        if event.what == "appended" and event.kind == "stored":
            count += event.stamp <= last.get((event.who, event.group), 0)
            last[event.who, event.group] = event.stamp
    return count


def jump(found: Found, binary: str, version: str) -> str:
    """One run: an hour forward, back, an hour behind, and the true time again."""
    most = 0
    with workplace() as directory:
        clock = Clock(directory)
        host = Host(directory / "d", binary=binary, environment=clock.environment)
        load = Load(directory / "load", Spec(url=host.url, seed=found.seed, lease_s=1.0, rate=400.0, work_s=0.004))
        with running(host), host.link() as link:
            try:
                load.start()
                if not wait(lambda: load.count("ended") >= 50, RECOVER_S):
                    found.problem(f"{version}: the load did not begin")
                for offset_s in (JUMP_S, 0, -JUMP_S, 0):
                    began = time.monotonic()
                    clock.set(offset_s)
                    if not wait(lambda at=offset_s: abs(shown(link) - at) < 5, 2.0):  # type: ignore[misc]
                        found.problem(f"{version}: the clock did not jump to {offset_s:+d} s, but {shown(link):+.0f} s")
                    # Where leases end early, both may run a message until the first is refused.
                    load.recorder.note(
                        "fault", who="", kind=f"clock set to {offset_s:+d} s", at=began - 0.1, until=began + 2.0
                    )
                    most = max(most, delayed(link, load.keys))
                    before = load.count("appended")
                    if not wait(lambda n=before: load.count("appended") > n + 20, RECOVER_S):  # type: ignore[misc]
                        found.problem(f"{version}: appends did not go on after the clock was set to {offset_s:+d} s")
                    time.sleep(0.5)
                late = delayed(link, load.keys)
                load.stop("produce")
                clock.set(2 * JUMP_S)  # as if it were later: what was delayed is due
                load.recorder.note(
                    "fault", who="", kind="clock set on", at=time.monotonic(), until=time.monotonic() + 2
                )
                load.recorder.note("healed")
                for text in load.crashes():
                    found.problem(f"{version}: {text}")
                if not load.drain(link):
                    found.problem(f"{version}: it was not drained")
                found.check(link, [load.keys], f"{version}: after the drain")
            finally:
                load.stop()
        events = load.events()
    judged = judge(events, recover_s=RECOVER_S, expected=["clock set to -3600 s", "clock set to +3600 s"])
    found.add(judged, said=version)
    back = stamps_back(events)
    if back:
        found.problem(f"{version}: {back} stamps went back")
    found.runs += 4
    return (
        f"{judged.messages} messages; groups delayed: {most} after a jump back, {late} at the end; {back} stamps back"
    )


def clock(found: Found) -> None:
    """On each server there is; in a smaller run on one. A build with jemalloc may not start under libfaketime."""
    if not library():
        found.figures["clock"] = MISSING
        return
    servers, refused = list(binaries().items()), []
    for version, binary in servers if found.scale == "nightly" else servers[:1]:
        name = f"clock set forward and back by an hour, {version}"
        try:
            found.figures[name] = jump(found, binary, version)
        except RuntimeError as error:
            refused.append(version)
            found.figures[name] = f"left out: under libfaketime {error}"
    if len(refused) == len(servers) or servers[0][0] in refused:
        found.problem(f"no jump of the clock: {', '.join(refused)} did not start")
