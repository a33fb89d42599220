"""The network of a simulation: real commands on a real server, in virtual time; and what was done is written down."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import redis

from sequencer.net.endpoint import Connection, Endpoint
from sequencer.testing.wire import Words, at_time

from ...support.judge.history import Event
from .stage import Process, Stage
from .truth import Truth
from .virtual import BEGAN_S


@dataclass(slots=True)
class Weather:
    """How likely faults are, and how long they may last."""

    rate: float
    """Of a round trip."""
    crash_rate: float
    """Of each point where a process touches the network or the clock."""
    pause_rate: float
    lease_us: int
    over_us: int
    """When all faults are over; nothing is held back for longer."""
    trip_us: tuple[int, int]
    """How long what is sent, or its answer, is on its way without any fault."""


class Physical:
    """A real connection, kept from one seed to the next while nothing is open on it."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._idle: list[Connection] = []

    def take(self) -> Connection:
        return self._idle.pop() if self._idle else self._endpoint.connect()

    def put(self, connection: Connection, *, is_clean: bool) -> None:
        if is_clean:
            self._idle.append(connection)
        else:
            connection.disconnect()

    def close(self) -> None:
        for connection in self._idle:
            connection.disconnect()
        self._idle = []


class ApartEndpoint(Endpoint):
    def of_shards(self, count: int) -> list[Endpoint]:
        return [self] * count


class Network:
    """Carries commands to the server, and keeps the history of what happened."""

    def __init__(self, stage: Stage, physical: Physical, truth: Truth, weather: Weather) -> None:
        self.stage, self.physical, self.truth, self.weather = stage, physical, truth, weather
        self.offset_us = 0
        """By how far the server's clock was stepped."""
        self.events: list[Event] = []
        self.trace: list[tuple[int, str, str]] = []
        self.faults: Counter[str] = Counter()
        self.on_step: Callable[[Process], None] = lambda process: None
        """Called where a process touches the network: it may be killed or frozen there."""
        self.executed = 0
        """Commands."""
        self.blocked: list[Callable[[], bool]] = []
        """Who waits for a list, in their order: each looks, and says whether it is done with."""
        self._is_serving = False
        self.are_apart = False
        """Whether consumers with worker slots have connections for each shard, as in a cluster."""
        self.make_wire: Callable[[Process], Connection]
        """A connection for a process; whoever makes the wires sets it."""
        self.close: Callable[[], None] = lambda: None
        """Gives all connections back: what is on its way will not arrive any more."""

    def endpoint(self, process: Process) -> Endpoint:
        """What this process connects to."""
        kind = ApartEndpoint if self.are_apart else Endpoint
        return kind(lambda: self.make_wire(process), "the simulated server", None)

    def note(self, who: str, text: str) -> None:
        self.trace.append((self.stage.now_us, who, text))

    def fault(self, kind: str, who: str, since_us: int, until_us: int) -> None:
        """A fault that took effect on a process (all: "")."""
        self.faults[kind] += 1
        self.events.append(Event("fault", since_us / 1e6, who, kind=kind, until=until_us / 1e6))
        self.note(who or "everybody", f"FAULT {kind} until {until_us / 1e6:.6f}")

    def execute(self, connection: Connection, commands: list[Words]) -> list[Any]:
        """Carry these out now, at the server's virtual time; the replies, errors among them."""
        now_us = self.server_us()
        words = [at_time(one, now_us) for one in commands]
        replies: list[Any] = []
        connection.send_packed_command(connection.pack_commands(words), check_health=False)
        for one in words:
            try:
                reply = connection.read_response()
            except redis.ResponseError as error:
                reply = error
            replies.append([b"%d" % (now_us // 10**6), b"%d" % (now_us % 10**6)] if one[0] == "TIME" else reply)
        self.executed += len(words)
        if self.blocked and not self._is_serving and any(str(one[0]).startswith("EVAL") for one in words):
            self._is_serving = True
            self.stage.after(0, self.serve_blocked)
        self.truth.now_us = self.stage.now_us
        self.truth.ledger.now_us = now_us
        self.truth.ledger.newest_us = max(self.truth.ledger.newest_us, now_us)
        self.truth.saw(words, replies)
        if self.truth.ledger.asks:
            self._look()
        return replies

    def serve_blocked(self) -> None:
        """As a server does after each command: who waits for a list gets what came into it."""
        self._is_serving, before = True, len(self.blocked)
        self.blocked = [look for look in self.blocked if not look()]
        self._is_serving = bool(self.blocked) and len(self.blocked) < before
        if self._is_serving:  # what was carried out for one may be for another
            self.stage.after(0, self.serve_blocked)

    def _look(self) -> None:
        """Whether groups that were leased or got a message will be looked at in time, on a connection of its own."""
        ledger, connection = self.truth.ledger, self.physical.take()
        asks, ledger.asks = ledger.asks, {}
        for (prefix, group), ask in asks.items():
            words = [("ZSCORE", f"{prefix}schedule", group)]
            words += [("HEXISTS", f"{prefix}{name}", group) for name in ("leases", "failures")]
            connection.send_packed_command(connection.pack_commands(words), check_health=False)
            visible, *holds = [connection.read_response() for _ in words]
            ledger.answered(group, ask, None if visible is None else float(visible), is_held=any(holds))
        self.physical.put(connection, is_clean=True)

    def server_us(self) -> int:
        """What the server's clock shows."""
        return round(BEGAN_S * 1e6) + self.stage.now_us + self.offset_us
