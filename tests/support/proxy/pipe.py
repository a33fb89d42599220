"""One connection through a `FaultProxy`: commands one way, replies the other, and what a fault does to either.

Replies come in the order of the commands. So for each command on its way a pending reply waits in a queue: its name,
the fault that its reply will meet, and the words to answer with when the server was not asked.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from sequencer.testing.wire import name_of

from .fault import Fault
from .frames import ABORTED, DISCARD, ERRORS, end_of_reply, read_request

if TYPE_CHECKING:
    from .fault_proxy import FaultProxy

TRICKLE_STEPS = 50


class _PendingReply(NamedTuple):
    name: str
    fault: Fault | None = None
    since: float = 0.0
    answer: bytes = b""
    """To answer with; the server was not asked."""
    instead: bytes = b""
    """To answer with in place of what the server says."""
    request: bytes = b""


class Pipe:
    """Passes on what one client and the server say, until either is gone."""

    def __init__(
        self,
        proxy: FaultProxy,
        who: str,
        client: asyncio.StreamReader,
        to_client: asyncio.StreamWriter,
        server: asyncio.StreamReader,
        to_server: asyncio.StreamWriter,
    ) -> None:
        self._proxy, self._who = proxy, who
        self._client, self._to_client, self._server, self._to_server = client, to_client, server, to_server
        self._pending_replies: deque[_PendingReply] = deque()
        self._is_answering = self._in_multi = self._is_poisoned = False
        self._silent: tuple[str, float] | None = None
        """The fault by which nothing is passed on any more, and since when."""
        self._closing: asyncio.Task[None] | None = None
        self._lost_scripts: set[str] = set()
        self._names: dict[tuple[bytes, bytes], str] = {}

    async def run(self) -> None:
        """To the end of the connection; closes both sides."""
        tasks = [asyncio.ensure_future(self._requests()), asyncio.ensure_future(self._replies())]
        is_over = False
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            is_over = True
        finally:
            tasks += [self._closing] if self._closing else []
            for task in tasks:
                task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.gather(*tasks, return_exceptions=True)
            if self._silent is not None and is_over:
                self._proxy.took_effect(self._silent[0], self._who, self._silent[1])
            for writer in (self._to_client, self._to_server):
                writer.close()

    # -- commands -------------------------------------------------------------------------------------------------

    async def _requests(self) -> None:
        data = b""
        with suppress(OSError):
            while piece := await self._client.read(65536):
                if self._is_silent():
                    continue
                data = data + piece if data else piece
                at = start = 0
                while at < len(data) and (request := read_request(data, at)):
                    pending = self._meet(request.command, request.first)
                    if pending.fault is None and not pending.instead:
                        self._pending_replies.append(pending)
                        at = request.end
                        continue
                    self._to_server.write(data[start:at])
                    if not await self._apply(pending, data[at : request.end]):
                        return
                    start = at = request.end
                    if self._is_silent():
                        break
                self._to_server.write(data[start:at])
                data = data[at:]
                await self._to_server.drain()

    def _fall_silent(self, fault: Fault, since: float) -> None:
        """Pass on nothing more. What a black hole swallowed is never answered: when it ends, the connection must."""
        self._silent = fault.kind, since
        if fault.kind == "black hole":
            self._closing = asyncio.ensure_future(self._close_after(since, fault.ends - since))

    async def _close_after(self, since: float, seconds: float) -> None:
        await self._proxy.hold(since, seconds)
        self._to_client.transport.abort()

    def _is_silent(self) -> bool:
        return self._silent is not None

    def _is_mute(self) -> bool:
        """Whether replies are held back too; after a dropped request, what came before it is answered."""
        return self._silent is not None and self._silent[0] != "request dropped"

    def _meet(self, command: bytes, first: bytes) -> _PendingReply:
        key = (command, first if command.startswith(b"EVAL") else b"")
        name = self._names.get(key)
        if name is None:
            name = self._names[key] = name_of([command.decode("utf-8", "replace"), first])
        if command == b"EVAL" and name in self._lost_scripts:
            self._lost_scripts.discard(name)
            self._proxy.took_effect("script reloaded", self._who, time.monotonic(), what="seen")
        instead = b""
        if name == "MULTI":
            self._in_multi, self._is_poisoned = True, False
        elif name in ("EXEC", "DISCARD"):
            instead = ABORTED if name == "EXEC" and self._is_poisoned else b""
            self._in_multi = self._is_poisoned = False
        fault = None
        if self._proxy.faults:
            fault = self._proxy.choose(name, self._who, in_multi=self._in_multi, is_sha=command == b"EVALSHA")
        return _PendingReply(name, fault, time.monotonic() if fault else 0.0, instead=instead)

    async def _apply(self, pending: _PendingReply, request: bytes) -> bool:
        """Do to a command what its fault says; whether the connection goes on."""
        fault = pending.fault
        kind = fault.kind if fault else ""
        if pending.instead:
            self._to_server.write(DISCARD)
            self._pending_replies.append(pending)
        elif fault is None:
            raise AssertionError("only what a fault met is given here")
        elif kind.startswith("error "):
            self._refuse(pending, ERRORS[kind.removeprefix("error ")])
        elif kind in ("request dropped", "black hole"):
            self._fall_silent(fault, pending.since)
        elif kind in ("request reset", "request late"):
            if kind == "request late":
                self._proxy.later(request, fault, self._who, pending.since)
            else:
                self._proxy.took_effect(kind, self._who, pending.since)
            self._to_client.transport.abort()
            return False
        elif kind == "request delayed":
            await self._proxy.hold(pending.since, fault.seconds)
            self._to_server.write(request)
            self._pending_replies.append(_PendingReply(pending.name))
            self._proxy.took_effect(kind, self._who, pending.since)
        else:
            self._to_server.write(request)
            self._pending_replies.append(pending._replace(request=request))
        return True

    def _refuse(self, pending: _PendingReply, answer: bytes) -> None:
        self._is_poisoned = self._in_multi
        self._pending_replies.append(pending._replace(answer=answer))
        if pending.fault:
            self._proxy.took_effect(pending.fault.kind, self._who, pending.since)
        if not self._is_answering:
            self._answer_refused()

    # -- replies --------------------------------------------------------------------------------------------------

    async def _replies(self) -> None:
        data = b""
        with suppress(OSError):
            while piece := await self._server.read(65536):
                if self._is_mute():
                    continue
                data = data + piece if data else piece
                at = start = 0
                self._is_answering = True
                while not self._is_mute() and at < len(data) and (end := end_of_reply(data, at)):
                    pending = self._pending_replies.popleft()
                    self._watch(pending, data[at : at + 32])
                    if self._proxy.faults and (hole := self._proxy.hole(pending.name, self._who)):
                        self._to_client.write(data[start:at])
                        self._fall_silent(hole, time.monotonic())
                        start = at
                        break
                    if pending.fault or pending.instead:
                        self._to_client.write(data[start:at])
                        if not await self._reply(pending, data[at:end]):
                            return
                        start = end
                    at = end
                    if self._pending_replies and self._pending_replies[0].answer:
                        self._to_client.write(data[start:at])
                        start = at
                        self._answer_refused()
                self._is_answering = False
                self._to_client.write(data[start:at])
                self._answer_refused()
                data = data[at:]
                await self._to_client.drain()

    def _answer_refused(self) -> None:
        while self._pending_replies and self._pending_replies[0].answer and not self._silent:
            pending = self._pending_replies.popleft()
            self._watch(pending, pending.answer)
            self._to_client.write(pending.answer)

    def _watch(self, pending: _PendingReply, reply: bytes) -> None:
        if reply.startswith(b"-NOSCRIPT"):
            self._lost_scripts.add(pending.name)
        if self._proxy.watch:
            self._proxy.watch(pending.name, reply, self._who)

    async def _reply(self, pending: _PendingReply, reply: bytes) -> bool:
        """Do to a reply what its fault says; whether the connection goes on."""
        fault, proxy = pending.fault, self._proxy
        if fault is None:
            self._to_client.write(pending.instead)
        elif fault.kind == "request repeated":
            self._to_client.write(reply)
            proxy.later(pending.request, fault, self._who, pending.since)
        elif fault.kind == "reply dropped":
            self._fall_silent(fault, pending.since)
        elif fault.kind == "reply trickled":
            step = -(-len(reply) // TRICKLE_STEPS)
            for at in range(0, len(reply), step):
                await asyncio.sleep(fault.seconds * step / len(reply))
                self._to_client.write(reply[at : at + step])
            proxy.took_effect(fault.kind, self._who, pending.since)
        else:
            if fault.kind == "reply cut":
                self._to_client.write(reply[: max(1, len(reply) // 2)])
                await self._to_client.drain()
                self._to_client.close()
            else:
                self._to_client.transport.abort()
            proxy.took_effect(fault.kind, self._who, pending.since)
            return False
        return True
