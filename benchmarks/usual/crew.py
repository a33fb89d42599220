"""The processes of one run of `usual`, whatever the system: producers and consumers, their plans and their journals."""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from ..load.order_check import Handled
from ..load.placement import Placement, client_cpus, place_server
from ..load.workload import BODY_BYTES
from ..peers.cells import where
from ..peers.hand import Hand
from ..peers.host import Address
from ..peers.installation import python
from ..peers.systems import ALL as PEERS
from ..peers.workers.player import Part

OWN = ("sequencer", "streams", "seed")
SYSTEMS = (*OWN, "celery", "rq")
ORDERED = OWN
"""Those that promise order in each group: of the others disorder is counted, and no reason to refuse a figure."""
CHECK_S = 0.01


class Planned(NamedTuple):
    """One message of a plan. `number` is its place in the order of appending."""

    group: str
    id: str
    number: int
    score: float

    def row(self) -> list[Any]:
        body = {"number": self.number, "reqId": self.id, "score": self.score, "note": "x" * (BODY_BYTES - 80)}
        return [self.group, self.id, self.number, body]


def plan(groups: int, messages: int, seed: int, name: str = "") -> list[Planned]:
    """One message of each group after the other. Ids are random, as those of requests are; scores count up. Pure."""
    chance = random.Random(f"{seed}/{name}")
    return [Planned(f"g{n % groups}", f"{chance.getrandbits(64):016x}", n + 1, n + 1) for n in range(messages)]


@dataclass(frozen=True, slots=True)
class Happened:
    """What the processes wrote down. `began`: starts of handlers, which only safe journals have."""

    handled: list[Handled]
    failed: list[Handled]
    began: list[tuple[str, str, float, str]]


class Player(Hand):
    """One process with its journal."""

    def __init__(self, command: Sequence[str], part: Part, cpus: set[int] | None, **where: Any) -> None:
        super().__init__(command, part, cpus, **where)
        self.owner, self.journal = part.owner, Path(part.result)

    @property
    def count(self) -> int:
        """How many handlers or appends it has finished."""
        counter = Path(f"{self.journal}.count")
        return int.from_bytes(counter.read_bytes(), "little") if counter.exists() else 0

    def events(self) -> list[list[Any]]:
        """All that it wrote; the last line of a killed process may be cut."""
        if not self.journal.exists():
            return []
        lines = self.journal.read_bytes().split(b"\n")[:-1]
        return [json.loads(line) for line in lines]


class Crew:
    """A context manager: the server is empty at its begin, and no process or file is left at its end."""

    def __init__(self, address: Address, cache: Path, system: str, placement: Placement) -> None:
        self.address, self.system = address, system
        self._cache, self._cpus, self._placement = cache, client_cpus(placement), placement
        self._consumers: list[Player] = []
        self._count = 0

    def __enter__(self) -> Crew:
        self.address.command("FLUSHALL")
        place_server(self.address.url, self._placement)
        self._stack = ExitStack()
        self._directory = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="sequencer-bench-")))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def producer(self, messages: Sequence[Planned], *, batch: bool = False, **more: Any) -> Player:
        """Started, not yet told to go."""
        self._count += 1
        path = self._directory / f"plan-{self._count}.json"
        path.write_text(json.dumps([message.row() for message in messages]))
        is_batch = batch and self.system != "celery"  # it has no way to send many at once
        return self._player("produce", is_batch, str(path), more)

    def consumer(self, **more: Any) -> Player:
        """Started, not yet told to go."""
        player = self._player("consume", False, "", more)
        self._consumers.append(player)
        return player

    def _player(self, role: str, batch: bool, plan: str, more: dict[str, Any]) -> Player:
        self._count += 1
        owner = f"{role}-{self._count}"
        setting = {**SETTINGS.get(self.system, {}), **more.pop("setting", {})}
        host, port = self.address.host, self.address.port
        part = Part(role, batch, host, port, "usual", owner, plan, str(self._directory / owner), setting, **more)
        command, place = self._command()
        return self._stack.enter_context(Player(command, part, self._cpus, **place))

    def _command(self) -> tuple[list[str], dict[str, Any]]:
        # -P: a folder named `sequencer` in the working directory must not stand in for this package.
        if self.system in OWN:
            return [sys.executable, "-P", "-m", "benchmarks.usual.own", self.system], {"env": dict(os.environ)}
        interpreter = str(python((self._cache / self.system).absolute()))
        return [interpreter, "-P", "-m", "workers.player", self.system], where(PEERS[self.system], self._cache)

    def start(self, *players: Player) -> None:
        """All are ready before the first is told to go. Raises MemberFailed."""
        for player in players:
            player.wait_ready()
        for player in players:
            player.go()

    def wait_handled(self, messages: int, seconds: float, quiet_s: float) -> bool:
        """Wait until the consumers handled so many, whichever these are; False after so long, or after quiet."""
        seen, since, until = -1, time.monotonic(), time.monotonic() + seconds
        while (count := sum(player.count for player in self._consumers)) < messages:
            now = time.monotonic()
            if count > seen:
                seen, since = count, now
            elif now > until or now - since > quiet_s:
                return False
            time.sleep(CHECK_S)
        return True

    def wait_all(self, names: set[tuple[str, str]], seconds: float, quiet_s: float) -> bool:
        """As `wait_handled`, for these messages: a repeat of one stands for no other. The journals must be safe."""
        seen, since, until = -1, time.monotonic(), time.monotonic() + seconds
        while True:
            done = {(event[1], event[2]) for one in self._consumers for event in one.events() if event[0] == "ran"}
            now = time.monotonic()
            if names <= done:
                return True
            count = sum(player.count for player in self._consumers)
            if count > seen:
                seen, since = count, now
            elif now > until or now - since > quiet_s:
                return False
            time.sleep(10 * CHECK_S)

    def settle(self, quiet_s: float) -> None:
        """Wait until nothing was handled for so long: what is handed out again has then been seen."""
        self.wait_handled(sys.maxsize, 60.0, quiet_s)

    def wait_until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Whether it came true in time."""
        until = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > until:
                return False
            time.sleep(CHECK_S)
        return True

    def end(self, seconds: float = 20.0) -> Happened:
        """Tell the consumers to end, and read what all that ever ran wrote. Raises MemberFailed."""
        alive = [player for player in self._consumers if not player.has_died]
        for player in alive:
            player.end()
        for player in alive:
            player.wait(seconds)
        found = Happened([], [], [])
        for player in self._consumers:
            for what, group, message_id, *times in player.events():
                if what == "began":
                    found.began.append((group, message_id, times[0], player.owner))
                else:
                    record = Handled(group, message_id, 0.0, 0, 0, times[0], times[1], player.owner)
                    (found.failed if what == "failed" else found.handled).append(record)
        return found


SETTINGS: dict[str, dict[str, Any]] = {
    # Acknowledged after the handler: without these a message is lost with the process that holds it.
    "celery": {"conf": {"task_acks_late": True, "task_reject_on_worker_lost": True}, "prefetch": 4},
    "rq": {"burst": False, "window": 1000},
}
