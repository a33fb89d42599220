"""Walks: programs that register, append, die, sleep and lose answers, one step of one of them at a time.

The programs run the real operations (`GenerationSearch`, `delete_queue`) over the model of registry and shards. A step
is one
round trip. Every choice follows from the seed.
"""

from __future__ import annotations

import random
from collections.abc import Coroutine, Generator
from dataclasses import dataclass, field
from typing import Any

from sequencer.errors import ConfigurationError, DataError, SequencerError, ServerUnavailable
from sequencer.queue.registry.deletion import delete_queue
from sequencer.queue.registry.generation_search import GenerationSearch
from sequencer.settings.options import QueueOptions
from sequencer.store.keys import registry_key, shard_keys
from sequencer.store.registration import Registration

from .registry import ModelAlone, ModelServer

GROUPS, PROGRAMS, STEPS = 6, 4, 260
REGISTRY = registry_key("n", "q")
RATES = {
    "flush": 0.003,
    "registry lost": 0.004,
    "registry and first shard lost": 0.001,
    "shard lost": 0.003,
    "registry older": 0.001,
    "all begin anew": 0.001,
}
"""What may go wrong, and how often at each step."""
WEATHERS = (*RATES, "deletion", "restless", "")


class Asked:
    """One round trip of a program: whoever runs the program gives the answers, or throws."""

    def __init__(self, commands: Any) -> None:
        self.commands = commands

    def __await__(self) -> Generator[Asked, Any, Any]:
        return (yield self)


class WalkAlone(ModelAlone):
    """A connection whose answers come when the walk lets them come."""

    async def answers(self, commands: Any, **_: Any) -> list[Any]:
        answers: list[Any] = await Asked(commands)
        return answers


class WalkNet:
    name, is_cluster = "the model", False

    async def sleep(self, seconds: float) -> None:
        await Asked([])


@dataclass
class Program:
    """One process that appends, and starts again when it is refused."""

    rng: random.Random
    alone: WalkAlone
    shards: int | None
    known: Registration | None = None
    appended: int = 0
    refusals: list[str] = field(default_factory=list)

    async def find(self) -> None:
        options = QueueOptions(queue="q", namespace="n", shards=self.shards)
        net: Any = WalkNet()
        self.known = await GenerationSearch(net, self.alone, options, known=self.known, registers=True).run()

    async def work(self) -> None:
        while True:
            try:
                if self.known is None:
                    await self.find()
                assert self.known
                group = self.rng.randrange(GROUPS)
                tag = self.known.tags[group % len(self.known.tags)]
                words = ("APPEND", shard_keys("n", "q", tag).prefix, self.known.generation, str(group))
                (reply,) = await self.alone.read([words])
                if reply == b"GENERATION":
                    await self.find()
                else:
                    self.appended += 1
            except (DataError, ConfigurationError) as error:  # a person starts it again, without shards=
                self.refusals.append(str(error))
                self.known = self.shards = None
            except ServerUnavailable:
                pass


class Walk:
    """One walk; `problems` says what was wrong, in words."""

    def __init__(self, seed: int, *, without: str = "") -> None:
        self.rng = random.Random(seed)
        self.server = ModelServer(without=without)
        self.problems: list[str] = []
        self.weather = WEATHERS[seed % len(WEATHERS)]
        """What goes wrong far more often than the rest."""
        self.lost = False
        """Whether a shard lost its policy: then nobody may know any more how many shards there were."""
        self._programs = [self._program() for _ in range(PROGRAMS)]
        self._deleter: tuple[Coroutine[Any, Any, Any], Any] | None = None
        self._older: dict[str, str] = {}

    def run(self) -> list[str]:
        asleep = [0] * PROGRAMS
        for _ in range(STEPS):
            self._fault()
            which = self.rng.randrange(PROGRAMS + 1)
            if which == PROGRAMS:
                self._step_deletion()
            elif asleep[which] > 0:
                asleep[which] -= 1
            else:
                self._programs[which] = self._step(self._programs[which], may_fail=True)
                asleep[which] = self.rng.choice([0, 0, 0, 0, 5, 40])
            self._check()
            if self.problems:
                self._close()
                return self.problems
        self._end()
        self._close()
        return self.problems

    def _program(self) -> tuple[Program, Coroutine[Any, Any, Any], Any]:
        alone = WalkAlone(self.server)
        one = Program(self.rng, alone, self.rng.choice([None, 1, 2, 3]))
        return one, one.work(), None

    def _step(self, program: Any, *, may_fail: bool) -> Any:
        """The next round trip of a program: it is carried out, and answered with what came of the one before."""
        one, work, answer = program
        if may_fail and self.rng.random() < (0.12 if self.weather == "restless" else 0.02):
            work.close()
            return self._program()
        try:
            asked = work.throw(answer) if isinstance(answer, Exception) else work.send(answer)
        except SequencerError as error:  # of a deletion
            return one, None, error
        except StopIteration:
            return one, None, None
        fate = self.rng.random() if may_fail else 1.0
        if fate < 0.02:
            return one, work, ServerUnavailable("not sent")
        answers = [self._carry_out(one, tuple(words)) for words in asked.commands]
        return one, work, (ServerUnavailable("the answer was lost") if fate < 0.04 else answers)

    def _carry_out(self, one: Any, words: Any) -> Any:
        self.server.now_us += 1
        if words[0] == "APPEND" and self.rng.random() < 0.2:  # and a consumer has handled some
            self.server.groups.get(words[1], {}).pop(words[3], None)
        return self.server.run(words)

    def _step_deletion(self) -> None:
        if self._deleter is None:
            if self.rng.random() < (0.5 if self.weather in ("deletion", "restless") else 0.1):
                options, net = QueueOptions(queue="q", namespace="n"), WalkNet()
                self._deleter = (delete_queue(net, WalkAlone(self.server), options), None)  # type: ignore[arg-type]
            return
        _, work, answer = self._step((None, *self._deleter), may_fail=False)
        self._deleter = None if work is None or self.rng.random() < 0.005 else (work, answer)

    def _fault(self) -> None:
        server, first = self.server, shard_keys("n", "q", 0).policy
        if self._strikes("flush"):
            server.hashes.clear()
            server.clocks.clear()
            server.groups.clear()
        if self._strikes("registry lost"):
            server.hashes.pop(REGISTRY, None)
        if self._strikes("registry and first shard lost"):
            self._restart(server.hashes.get(first, {}).get("table", ""))
            server.hashes.pop(REGISTRY, None)
            self.lost = server.hashes.pop(first, None) is not None or self.lost
        if self._strikes("shard lost"):
            policy = shard_keys("n", "q", self.rng.randrange(3)).policy
            self.lost = server.hashes.pop(policy, None) is not None or self.lost
        if self._strikes("registry older"):
            if self._older and server.hashes.get(REGISTRY):
                server.hashes[REGISTRY] = dict(self._older)
        elif self.rng.random() < 0.02:
            self._older = dict(server.hashes.get(REGISTRY, {}))
        if self._strikes("all begin anew"):
            self._restart("")

    def _restart(self, table: str) -> None:
        """Programs begin anew, but for some that know this table.

        Who knew a queue that was deleted since would register that again where neither registry nor shard 0 says more.
        """
        for at, (one, work, _) in enumerate(self._programs):
            if one.known is None or one.known.table != table or self.rng.random() < 0.5:
                work.close()
                self._programs[at] = self._program()

    def _strikes(self, fault: str) -> bool:
        return self.rng.random() < (0.04 if fault == self.weather else RATES[fault])

    def _check(self) -> None:
        for group in map(str, range(GROUPS)):
            shards = sorted(prefix for prefix, groups in self.server.groups.items() if group in groups)
            if len(shards) > 1:
                self.problems.append(f"group {group} has messages in {' and '.join(shards)}")

    def _end(self) -> None:
        """All is calm: a deletion comes to its end, everybody can append, and a newcomer sees all."""
        while self._deleter is not None:
            _, work, answer = self._step((None, *self._deleter), may_fail=False)
            self._deleter = None if work is None else (work, answer)
        if any(fields.get("generation", "").startswith("-1") for fields in self.server.hashes.values()):
            options, net = QueueOptions(queue="q", namespace="n"), WalkNet()
            self._deleter = (delete_queue(net, WalkAlone(self.server), options), None)  # type: ignore[arg-type]
            self._end()
            return
        newcomer = self._program()
        newcomer[0].shards = None
        everybody = [*self._programs, newcomer]
        for at, first in enumerate(everybody):
            program, before = first, first[0].appended
            for _ in range(120):
                program = self._step(program, may_fail=False)
                self._check()
                if self.problems:
                    return
            everybody[at] = program
            if self.server.hashes.get(REGISTRY, {}).get("generation", "").startswith("-1"):
                return  # a registry that went back to a deletion that was over: a person ends it
            if program[0].appended == before and not (self.lost and program[0].refusals):
                self.problems.append(f"a program could not append any more: {program[0].refusals[-1:]}")
        self._look_for_all(newcomer[0].known)

    def _close(self) -> None:
        """Nobody goes on; what was never begun is not missed."""
        for work in (*(one[1] for one in self._programs), self._deleter and self._deleter[0]):
            if work is not None:
                work.close()

    def _look_for_all(self, known: Registration | None) -> None:
        for prefix, groups in self.server.groups.items() if known else ():
            for group in groups:
                tag = known.tags[int(group) % len(known.tags)] if known else ""
                if shard_keys("n", "q", tag).prefix != prefix:
                    self.problems.append(f"group {group} lies in {prefix}, where a newcomer does not look")
