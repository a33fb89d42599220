"""A connection of a simulated process: what it sends arrives a moment later as an event of its own, whatever has become
of its sender by then, and the replies come a moment after that. So a request may be carried out though its sender is
dead, frozen, or has connected anew; and none of the library's code knows.

    request lost      never carried out; the sender sees a timeout, or a lost connection
    reply lost        carried out; the sender sees the same
    request twice     carried out, answered, and carried out once more, at once or later
    request delayed   the sender gives up, and later (mostly after a lease) the request is carried out all the same
    reset in a batch  the first commands of a batch are carried out, the others never
    slow              request or reply take long, within the sender's patience
"""

from __future__ import annotations

import random
from collections import deque
from typing import Any

import redis

from sequencer.testing.wire import Words, name_of

from .line import PATIENCE_US, Carried, Line
from .net import Network
from .stage import Crashed, Process
from .virtual import as_us

KINDS = ("request lost", "reply lost", "request twice", "request delayed", "reset in a batch", "slow")


def connect_by_wires(net: Network) -> None:
    """From now on this network connects by wires, which go back with it."""
    wires: list[SimWire] = []

    def make(process: Process) -> SimWire:
        wires.append(SimWire(net, process))
        return wires[-1]

    def close() -> None:
        for wire in wires:
            wire.retire(at_once=True)

    net.make_wire, net.close = make, close


class SimWire(Line):
    """A connection as redis-py's, as far as the library uses it."""

    # -- what the library calls -------------------------------------------------------------------------------

    def connect(self) -> None:
        self._step()
        stage = self.net.stage
        stage.sleep(stage.rng.randrange(50, 400))
        self._inner, self._is_closed, self._is_open = self.net.physical.take(), False, False
        self._carried.clear()

    def _ensure(self) -> None:
        """As redis-py does: what is sent on a closed connection opens it again."""
        if self._is_closed or self._inner is None:
            self.connect()

    def disconnect(self, *_: Any) -> None:
        self._is_closed = True
        self.retire()

    def pack_commands(self, commands: list[Words]) -> list[Words]:
        return [tuple(words) for words in commands]

    def send_command(self, *words: Any, **_: Any) -> None:
        self.send_packed_command([words])

    def send_packed_command(self, packed: list[Words], **_: Any) -> None:
        self._step()
        self._ensure()
        carried, before = Carried(packed, deque()), self._carried[-1] if self._carried else None
        self._carried.append(carried)
        if before is not None and before.error is not None:  # on a connection that is lost already
            now_us = self.net.stage.now_us
            self._loses(carried, max(1, (before.ready_us or 0) - now_us))
        elif packed[0][0] == "BLPOP":
            self._block(carried)
        else:
            self._dispatch(carried)
        self._step()

    def read_response(self, *_: Any, **__: Any) -> Any:
        carried = self._carried[0]
        if carried.lists:  # whoever reads has waited for as long as it wanted, and has let the server end it
            self._unblock(carried, None)
        stage, me = self.net.stage, self.net.stage.current
        self._waiting = me
        while carried.ready_us is None or stage.now_us < carried.ready_us:
            stage.wait(None if carried.ready_us is None else carried.ready_us - stage.now_us)
        self._waiting = None
        if carried.error is not None:
            raise carried.error
        reply = carried.replies.popleft()
        if not carried.replies:
            self._carried.popleft()
        if isinstance(reply, redis.ResponseError):
            raise reply
        return reply

    def can_read(self, timeout: float = 0) -> bool:
        """Whether the beginning of a reply is there within `timeout` seconds."""
        stage, carried = self.net.stage, self._carried[0] if self._carried else None
        if carried is None:
            stage.sleep(as_us(timeout))
            return False
        until_us, self._waiting = stage.now_us + as_us(timeout), stage.current
        while stage.now_us < min(until_us, until_us if carried.ready_us is None else carried.ready_us):
            stage.wait(min(until_us, until_us if carried.ready_us is None else carried.ready_us) - stage.now_us)
        self._waiting = None
        return carried.ready_us is not None and stage.now_us >= carried.ready_us

    # -- what becomes of it -----------------------------------------------------------------------------------

    def _step(self) -> None:
        """A point where the process may be killed or frozen."""
        if self.process.is_dead:
            raise Crashed
        self.net.on_step(self.process)

    def retire(self, *, at_once: bool = False) -> None:
        """Give the real connection back once nothing on its way needs it."""
        if self._inner is not None and (at_once or (self._is_closed and not self._on_way)):
            self.net.physical.put(self._inner, is_clean=not self._is_open)
            self._inner = None

    def _dispatch(self, carried: Carried) -> None:
        net, rng = self.net, self.net.stage.rng
        weather, trip_us = net.weather, self._trip_us()
        left_us = weather.over_us - net.stage.now_us
        kind = self._kind(carried.commands) if left_us > 0 else ""
        names = " ".join(name_of(words) for words in carried.commands[:6])
        net.note(self.process.name, f"sends {names}{f': {kind}' if kind else ''}")
        if kind == "slow":
            trip_us = rng.randrange(20_000, 2 * weather.lease_us)
            trip_us = max(20, min(trip_us, left_us, PATIENCE_US // 3))
        if kind in ("", "slow"):
            return self._arrive(carried, trip_us, kind)
        is_cut = net.stage.now_us < self.process.cut_until_us  # then attempts fail one after another, quickly
        is_silent = rng.random() < 0.3 and not is_cut
        gives_up_us = min(left_us, PATIENCE_US) if is_silent else rng.randrange(200, 20_000)
        if kind == "request twice":
            self._arrive(carried, trip_us, "")
            return self._twice(carried.commands, trip_us + self._while(rng))
        count = len(carried.commands)
        if kind == "reset in a batch":
            if count == 1:
                kind = "request lost"
            else:
                count = rng.randrange(1, count)
        if kind == "request lost":
            self._loses(carried, gives_up_us)
        elif kind == "request delayed":
            self._gives_up(carried, gives_up_us, kind)
            self._again(carried, len(carried.commands), max(trip_us, self._while(rng)), kind)
        else:
            self._gives_up(carried, gives_up_us, kind)
            self._again(carried, count, min(trip_us, gives_up_us), kind)
        return None

    def _kind(self, commands: list[Words]) -> str:
        """What happens to this batch, "" for nothing. Some faults begin a time in which nothing comes through."""
        rng, weather, now_us = self.net.stage.rng, self.net.weather, self.net.stage.now_us
        if now_us < self.process.cut_until_us:
            return rng.choice(("request lost", "reply lost"))
        if rng.random() >= weather.rate:
            return ""
        if rng.random() < (0.8 if self.process.name.startswith("p") else 0.25):
            self.process.cut_until_us = now_us + rng.randrange(100_000, weather.lease_us * 2)
        kind = rng.choice(KINDS)
        return "reply lost" if kind == "request twice" and not _is_whole(commands) else kind

    def _while(self, rng: random.Random) -> int:
        """How long something is held back: mostly past the lease."""
        weather = self.net.weather
        us = rng.randrange(weather.lease_us // 2, 3 * weather.lease_us) if rng.random() < 0.8 else rng.randrange(5_000)
        return max(1, min(us, weather.over_us - self.net.stage.now_us))

    def _arrive(self, carried: Carried, trip_us: int, kind: str) -> None:
        net, sent_us = self.net, self.net.stage.now_us
        self._on_way += 1
        trip_us = self._behind(trip_us)

        def arrive() -> None:
            self._on_way -= 1
            carried.replies.extend(self._carry_out(carried.commands))
            carried.ready_us = net.stage.now_us + trip_us
            if kind:
                net.fault(kind, self.process.name, sent_us, carried.ready_us)
            self._tell()
            self.retire()

        net.stage.after(trip_us, arrive)

    def _again(self, carried: Carried, count: int, after_us: int, kind: str) -> None:
        """The first `count` commands are carried out later, with nobody to hear the replies."""
        net, sent_us = self.net, self.net.stage.now_us
        self._on_way += 1
        after_us = self._behind(after_us)

        def arrive() -> None:
            self._on_way -= 1
            self._carry_out(carried.commands[:count])
            now_us = net.stage.now_us
            is_past = kind == "request delayed" and now_us - sent_us >= net.weather.lease_us
            name = f"{kind} past the lease" if is_past else kind
            net.fault(name, self.process.name, sent_us, max(now_us, carried.ready_us or 0))
            self.retire()

        net.stage.after(after_us, arrive)

    def _twice(self, commands: list[Words], after_us: int) -> None:
        """Carried out again, on a connection of its own: on this one, other commands may have come between."""
        net, sent_us = self.net, self.net.stage.now_us

        def arrive() -> None:
            connection = net.physical.take()
            net.execute(connection, commands)
            net.physical.put(connection, is_clean=True)
            net.fault("request twice", self.process.name, sent_us, net.stage.now_us)

        net.stage.after(after_us, arrive)


def _is_whole(commands: list[Words]) -> bool:
    """Whether the batch means the same whatever went before it: scripts alone, or a whole transaction."""
    names = [str(words[0]) for words in commands]
    return all(name.startswith("EVAL") for name in names) or (names[0], names[-1]) == ("MULTI", "EXEC")
