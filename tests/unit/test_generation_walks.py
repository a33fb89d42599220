"""Walks over the protocol of registry and shards: no group lies in two shards, and nobody waits for ever.

Each rule is needed: without it a walk goes wrong that is sound with it. These walks are short, and each step is chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from sequencer.errors import SequencerError
from sequencer.queue.registry.deletion import delete_queue
from sequencer.queue.registry.generation_search import GenerationSearch
from sequencer.settings.options import QueueOptions
from sequencer.store.keys import shard_keys
from sequencer.store.registration import Registration

from ..support.model.registry import RULES, ModelServer
from ..support.model.walk import REGISTRY, Walk, WalkAlone, WalkNet

WALKS = 240
NET: Any = WalkNet()
FIRST = shard_keys("n", "q", 0).policy


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_no_walk_puts_a_group_into_two_shards_or_stops_anybody(part: int) -> None:
    wrong = {seed: found for seed in range(part, WALKS, 4) if (found := Walk(seed).run())}
    assert wrong == {}


class Play:
    """One server and what programs do there, a round trip at a time."""

    def __init__(self, without: str) -> None:
        self.server = ModelServer(without=without)

    def find(
        self, shards: int | None = None, known: Registration | None = None, **asked: Any
    ) -> Coroutine[Any, Any, Any]:
        """A program that is about to use the queue."""
        options = QueueOptions(queue="q", namespace="n", shards=shards)
        return GenerationSearch(NET, WalkAlone(self.server), options, known=known, asked=asked, registers=True).run()

    def delete(self) -> Coroutine[Any, Any, Any]:
        return delete_queue(NET, WalkAlone(self.server), QueueOptions(queue="q", namespace="n"))

    def go(self, work: Coroutine[Any, Any, Any], *, until: Callable[[Any], bool] = lambda _: False) -> Any:
        """Let it go on to its end, or to just before a round trip; what it returns."""
        answer: Any = None
        try:
            while True:
                asked = work.send(answer)
                if until(asked.commands):
                    self.pending = asked
                    return work
                answer = self._answers(asked)
        except StopIteration as end:
            return end.value

    def resume(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Carry out the round trip before which it stopped, and let it go on to its end."""
        answer = self._answers(self.pending)
        try:
            while True:
                answer = self._answers(work.send(answer))
        except StopIteration as end:
            return end.value

    def _answers(self, asked: Any) -> list[Any]:
        self.server.now_us += 1
        return [self.server.run(tuple(words)) for words in asked.commands]

    def append(self, known: Registration, group: int) -> None:
        self.server.run(
            ("APPEND", shard_keys("n", "q", known.tags[group % len(known.tags)]).prefix, known.generation, str(group))
        )

    def is_sound(self) -> bool:
        """Whether no group lies in two shards."""
        groups = [group for some in self.server.groups.values() for group in some]
        return len(groups) == len({*groups})


def is_script(name: str) -> Callable[[Any], bool]:
    """Before the next call of this script."""
    from sequencer.testing.wire import name_of

    return lambda commands: any(name_of(words) == name for words in commands)


def has(word: str) -> Callable[[Any], bool]:
    return lambda commands: any(word in map(str, words) for words in commands)


def generations(play: Play) -> bool:
    old = play.go(play.find(3))
    play.go(play.delete())
    new = play.go(play.find(2))
    play.append(new, 3)
    play.append(old, 3)
    return play.is_sound()


def copies(play: Play) -> bool:
    play.go(play.find(3))
    del play.server.hashes[REGISTRY]
    try:
        return len(play.go(play.find()).tags) == 3
    except SequencerError:
        return False


def clocks(play: Play) -> bool:
    play.append(play.go(play.find(3)), 2)
    del play.server.hashes[REGISTRY], play.server.hashes[FIRST]
    try:
        play.append(play.go(play.find(1)), 2)
    except SequencerError:
        return True
    return play.is_sound()


def newer(play: Play) -> bool:
    play.go(play.find())
    sleeper = play.go(play.find(), until=is_script("sync_shard"))
    pending = play.pending
    play.go(play.find(on_late="drop"))
    play.pending = pending
    play.resume(sleeper)
    return play.server.hashes[FIRST]["on_late"] == "drop"


def own_table(play: Play) -> bool:
    """One is about to confirm its table when the registry is lost; another registers its own, and will bring it."""
    first = play.go(play.find(1), until=has("confirm"))
    confirms = play.pending
    del play.server.hashes[REGISTRY]
    second = play.go(play.find(3), until=is_script("sync_shard"))
    brings = play.pending
    play.pending = confirms
    play.append(play.resume(first), 1)
    play.pending = brings
    try:
        play.append(play.resume(second), 1)
    except SequencerError:
        return True
    return play.is_sound()


def pending(play: Play) -> bool:
    """One has seen that shard 0 has the table, and is about to bring it to the others."""
    old = play.go(play.find(3))
    for shard in (1, 2):
        del play.server.hashes[shard_keys("n", "q", shard).policy]
    sleeper = play.go(play.find(3), until=has(shard_keys("n", "q", 1).schedule))
    brings = play.pending
    play.go(play.delete())
    play.append(play.go(play.find(1)), 1)
    play.server.run(tuple(brings.commands[0]))  # then it dies
    sleeper.close()
    play.append(old, 1)
    return play.is_sound()


def deletion(play: Play) -> bool:
    old = play.go(play.find(2))
    play.append(old, 0)
    remover = play.go(play.delete(), until=_is_unregister)
    at = play.pending
    try:
        pusher: Registration | None = play.go(play.find(2, known=old))
    except SequencerError:
        pusher = None
    play.pending = at
    play.resume(remover)
    play.server.hashes.pop(FIRST, None)  # as of a deletion that began again
    play.server.clocks.discard(shard_keys("n", "q", 0).clock)
    if pusher:
        play.append(pusher, 1)
        play.append(play.go(play.find(1)), 1)
    return play.is_sound()


def _is_unregister(commands: Any) -> bool:
    return is_script("register")(commands) and any('"protocol":""' in str(word) for words in commands for word in words)


def written_back(play: Play) -> bool:
    play.go(play.find())
    old = dict(play.server.hashes[REGISTRY])
    play.go(play.delete())
    play.go(play.find())
    play.server.hashes[REGISTRY] = old
    try:
        return bool(play.go(play.find()))
    except SequencerError:
        return False


PLAYS: dict[str, Callable[[Play], bool]] = dict(
    zip(RULES, (generations, copies, clocks, newer, own_table, pending, deletion, written_back), strict=True)
)


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_is_needed(rule: str) -> None:
    assert PLAYS[rule](Play("")), "with all rules it is sound"
    assert not PLAYS[rule](Play(rule)), f"without it {RULES[rule]}"
