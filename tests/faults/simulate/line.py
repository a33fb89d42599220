"""A simulated connection below what its client calls: what is on its way on it, in order, and who waits at the server
for a list: a BLPOP is answered when there is something in one, or when its time is over.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import redis

from sequencer.net.endpoint import CALL_TIMEOUT_S, Connection
from sequencer.testing.wire import Words

from .net import Network
from .stage import Process
from .virtual import as_us

PATIENCE_US = round(CALL_TIMEOUT_S * 1e6)


@dataclass(slots=True)
class Carried:
    """A batch on its way: what its sender will see, and when. If it begins with a BLPOP, `lists` waits."""

    commands: list[Words]
    replies: deque[Any]
    ready_us: int | None = None
    error: BaseException | None = None
    lists: tuple[Any, ...] = ()


class Line:
    """One connection's two directions."""

    def __init__(self, net: Network, process: Process) -> None:
        self.net, self.process = net, process
        self._inner: Connection = None
        self._waiting: Any = None
        self._carried: deque[Carried] = deque()
        """Batches whose replies were not read yet."""
        self._arrives_us = 0
        """When the last of them reaches the server: what is sent behind it does so later."""
        self._on_way, self._is_closed, self._is_open = 0, False, False

    def _trip_us(self) -> int:
        return self.net.stage.rng.randrange(*self.net.weather.trip_us)

    def _behind(self, trip_us: int) -> int:
        """So long, but until after what was sent before: a connection keeps the order."""
        now_us = self.net.stage.now_us
        self._arrives_us = max(now_us + trip_us, self._arrives_us + 1)
        return self._arrives_us - now_us

    def _loses(self, carried: Carried, gives_up_us: int) -> None:
        """It never arrives."""
        self._gives_up(carried, gives_up_us, "request lost")
        now_us = self.net.stage.now_us
        self.net.fault("request lost", self.process.name, now_us, now_us + gives_up_us)

    def _gives_up(self, carried: Carried, after_us: int, why: str) -> None:
        is_late = after_us > PATIENCE_US // 2
        text = f"{why}: no answer" if is_late else f"{why}: connection reset"
        carried.error = redis.TimeoutError(text) if is_late else redis.ConnectionError(text)
        carried.ready_us = self.net.stage.now_us + after_us

    def _carry_out(self, commands: list[Words]) -> list[Any]:
        names = {str(words[0]) for words in commands}
        if "MULTI" in names or "WATCH" in names:
            self._is_open = True
        if names & {"EXEC", "DISCARD", "UNWATCH"}:
            self._is_open = str(commands[-1][0]) not in ("EXEC", "DISCARD", "UNWATCH")
        return self.net.execute(self._inner, commands)

    def _tell(self) -> None:
        if self._waiting is not None:
            self.net.stage.wake(self._waiting)

    def _block(self, carried: Carried) -> None:
        """A BLPOP sets out, with what follows it. The server answers when a list has something, at the latest when its
        time is over, whatever its client does by then.
        """
        stage, words, weather = self.net.stage, carried.commands[0], self.net.weather
        left_us = weather.over_us - stage.now_us
        is_cut = stage.now_us < self.process.cut_until_us
        if left_us > 0 and (is_cut or stage.rng.random() < weather.rate):
            is_silent = stage.rng.random() < 0.3 and not is_cut
            gives_up_us = PATIENCE_US + as_us(float(words[-1])) if is_silent else stage.rng.randrange(200, 20_000)
            return self._loses(carried, min(left_us, gives_up_us))
        carried.lists = words[1:-1]
        trip_us = self._behind(self._trip_us())
        stage.after(trip_us, lambda: self._arrived(carried))
        stage.after(trip_us + as_us(float(words[-1])), lambda: self._unblock(carried, None))
        return None

    def _arrived(self, carried: Carried) -> None:
        self.net.blocked.append(lambda: self.serve(carried))
        self.net.serve_blocked()

    def serve(self, carried: Carried) -> bool:
        """Answer it if a list has something; whether it is done with."""
        if not carried.lists or self._is_gone(carried):
            return True
        for name in carried.lists:
            (found,) = self.net.execute(self._inner, [("LPOP", name)])
            if found is not None:
                self._unblock(carried, [name.encode(), found])
                return True
        return False

    def _unblock(self, carried: Carried, popped: Any) -> None:
        if not carried.lists or self._is_gone(carried):
            return
        net, rng, now_us = self.net, self.net.stage.rng, self.net.stage.now_us
        carried.lists = ()
        taken = net.truth.effects["lease taken"]
        carried.replies.extend([popped, *(self._carry_out(carried.commands[1:]) if carried.commands[1:] else ())])
        net.truth.effects["lease taken at a hint"] += net.truth.effects["lease taken"] - taken
        carried.ready_us = now_us + self._trip_us()
        if now_us < net.weather.over_us and rng.random() < net.weather.rate:
            self._gives_up(carried, rng.randrange(200, 20_000), "reply lost")
            net.fault("reply lost", self.process.name, now_us, carried.ready_us)
        self._tell()

    def _is_gone(self, carried: Carried) -> bool:
        """Whether its client has closed the connection. That of a dead one may stay open, as when its host is lost."""
        is_lost = self.process.is_dead and self.net.stage.rng.random() < 0.8
        return is_lost or self._is_closed or self._inner is None or all(one is not carried for one in self._carried)
