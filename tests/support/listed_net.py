"""A net that answers from a list: for unit tests of operations, with no server and no time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from sequencer.calls.call import Call
from sequencer.calls.examine import GroupFacts
from sequencer.calls.net_protocol import Alone, Answer, Command
from sequencer.net.blocking import finish
from sequencer.queue.pages import read
from sequencer.queue.session import Reachable
from sequencer.settings.options import queue_options
from sequencer.settings.policy import Policy
from sequencer.store.group import shard_of
from sequencer.store.item import ItemMaker
from sequencer.store.keys import ShardKeys, shard_keys
from sequencer.values.views import QueueInfo

T = TypeVar("T")
run = finish
"""Runs an operation to its end."""


class ListedNet:
    """Answers in their order: raw replies to calls, which their calls read; an exception is raised; an Answer is given.

    `asked` is the log: script and arguments of each call, words of each plain command, "sleep" with its seconds. An
    answer may be a function of what was asked. To plain commands a dict answers each by its first word, the others are
    QUEUED.
    """

    name, is_cluster = "listed", False

    def __init__(self, *answers: Any, now: float = 0.0) -> None:
        self.answers, self.asked, self.time = list(answers), list[tuple[Any, ...]](), now
        self.waits = list[tuple[int, int] | None]()
        """Of each round trip of calls: for what it waited."""

    async def ask(self, call: Call[T], *, wait: tuple[int, int] | None = None) -> Answer[T]:
        self.asked.append((call.script, *call.args))
        self.waits.append(wait)
        answer = self._next()
        if isinstance(answer, Answer):
            return answer
        return Answer(call.parse(answer))

    async def ask_all(
        self,
        calls: Sequence[Call[Any]],
        *,
        wait: tuple[int, int] | None = None,
        meanwhile: Callable[[], None] | None = None,
    ) -> Answer[list[Any]]:
        self.asked += [(call.script, *call.args) for call in calls]
        self.waits.append(wait)
        if meanwhile:
            meanwhile()
        answer = self._next()
        if isinstance(answer, Answer):
            return answer
        return Answer([call.parse(reply) for call, reply in zip(calls, answer, strict=True)])

    async def read(self, commands: Sequence[Command]) -> list[Any]:
        self.asked += [tuple(command) for command in commands]
        found = self._next()
        answer: list[Any] = [found.get(one[0], b"QUEUED") for one in commands] if isinstance(found, dict) else found
        assert len(answer) == len(commands), f"{len(commands)} commands, {len(answer)} answers"
        return answer

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[Alone]:
        self.asked.append(("alone",))
        yield _ListedAlone(self)
        self.asked.append(("shared",))

    def _alone(self) -> Alone:
        return _ListedAlone(self)

    @asynccontextmanager
    async def once(self) -> AsyncIterator[None]:
        yield

    async def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.asked.append(("sleep", seconds))
        self.time += seconds

    def _next(self) -> Any:
        assert self.answers, f"nothing is listed for {self.asked[-1]}"
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer(self.asked[-1]) if callable(answer) else answer


class _ListedAlone:
    def __init__(self, net: ListedNet) -> None:
        self._net, self.name = net, net.name

    async def read(self, commands: Sequence[Command]) -> list[Any]:
        answers = await self._net.read(commands)
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        return answers

    async def answers(self, commands: Sequence[Command], **_: Any) -> list[Any]:
        return await self._net.read(commands)

    async def nodes(self) -> Sequence[Alone]:
        return [self]

    def give_up(self) -> None:
        self._net.asked.append(("give up",))


class ListedSession:
    """What operations know of a queue, given outright."""

    def __init__(
        self,
        net: ListedNet,
        *,
        shards: int = 1,
        policy: Policy | None = None,
        fresh: Policy | None = None,
        **options: Any,
    ) -> None:
        self.net, self.options = net, queue_options("q", "n", options)
        self.names = {"queue": "q", "namespace": "n"}
        self.items = ItemMaker(self.options)
        self.keys = [shard_keys("n", "q", shard) for shard in range(shards)]
        self._policy = policy or Policy()
        self._fresh = fresh or self._policy
        self.allowed: list[str] = []
        self.last_info: tuple[float, QueueInfo] | None = None

    async def shards(self, role: str | None = None, *, register: bool | None = None) -> list[ShardKeys]:
        if role:
            await self.allow(role)
        return self.keys

    async def keys_of(self, group: str, role: str | None = None) -> ShardKeys:
        return self.keys[shard_of(group, len(await self.shards(role)))]

    async def policy(self, role: str | None = None) -> Policy:
        return self._policy

    async def fresh_policy(self) -> Policy:
        return self._fresh

    async def allow(self, role: str) -> None:
        self.allowed.append(role)

    async def ask(self, call: Call[T]) -> T:
        return (await self.net.ask(call)).value

    async def reachable(self) -> Reachable:
        return Reachable(self.keys, None)

    async def read_shards(
        self, of: Callable[..., T], commands: Callable[[ShardKeys], Sequence[Command]]
    ) -> dict[ShardKeys, T]:
        return {keys: await read(self.net, of, *commands(keys)) for keys in self.keys}

    def known_shards(self) -> list[ShardKeys]:
        return self.keys

    def known_sequence(self) -> bool:
        return self._policy.sequence


def facts(**changes: Any) -> GroupFacts:
    """What `inspect` says of a sound group with one message, m1, that is due; but for these changes."""
    stamp = "1700000000000000"
    sound = GroupFacts(
        now_us=1_700_000_100_000_000,
        visible_us=1_700_000_099_000_000.0,
        lease=b"",
        failure=b"",
        is_paused=False,
        is_queue_paused=False,
        order_size=1,
        body_size=1,
        head=f"{stamp}m1",
        head_score="7",
        head_record=f"{stamp}00000[1]".encode(),
        mark="",
        member="",
        score="",
        record=b"",
        is_handled=False,
    )
    return sound._replace(**changes)


def seen(**changes: Any) -> Answer[GroupFacts]:
    """The answer to `inspect`."""
    return Answer(facts(**changes))
