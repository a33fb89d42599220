"""What the server really did in a simulation: each command that was carried out, with its reply, whoever learned of it.

From this follow the messages that were stored (also where no producer was told), those that were given up by a decision
(dropped, skipped), what shows that faults had an effect, and rules that hold at every single step: tokens and stamps of
a shard only grow, and an id that is remembered is not stored twice.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import orjson
import redis

from sequencer.store.record import STAMP_DIGITS
from sequencer.testing.wire import Words, name_of

from ...support.arrivals import acknowledgements, arrivals
from .ledger import Ledger, marks_in
from .scenario import Scenario

EFFECTS = {
    "=": "duplicate refused",
    "!": "conflict refused",
    "<": "late refused",
    "~": "late dropped",
    "x": "late dead letter",
}
"""By the mark of an append."""
Name = tuple[str, str, int]
"""Group as in its key, id, stamp."""


class Truth:
    """Reads every command and its reply in the order in which the server took them."""

    def __init__(self, play: Scenario) -> None:
        self.is_remembered = play.policy != "no dedup"
        """Whether an id stays known after its message was handled, for longer than a run."""
        self.stored: dict[Name, None] = {}
        self.now_us = 0
        """When what is seen happened; whoever carries commands out sets it."""
        self.given_up: set[Name] = set()
        self.passed_us: dict[Name, int] = {}
        """Messages that the group was let pass: given up, or dead letters; and when."""
        self.refused_late: set[tuple[str, str]] = set()
        """Ids of late messages that were dropped when they arrived."""
        self.stamps: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
        """Message -> the stamps under which it was stored: one, where ids are remembered."""
        self.effects: Counter[str] = Counter()
        self.ledger = Ledger(play)
        self.problems = self.ledger.problems
        self._told: set[Name] = set()
        """Messages of which a producer heard that its append stored them."""
        self.calls: Counter[str] = Counter()
        self._tokens: dict[str, int] = {}
        self._holders: dict[tuple[str, str], int] = {}
        """Shard and group -> the token of its newest lease: no other may change anything."""
        self._ticks: dict[str, int] = {}
        self._lost_scripts: set[str] = set()

    def saw(self, commands: list[Words], replies: list[Any]) -> None:
        """The commands that were carried out at one moment; those of a transaction with what its EXEC said."""
        inside: list[Words] | None = None
        for words, reply in zip(commands, replies, strict=True):
            if words[0] == "MULTI":
                inside = []
            elif words[0] == "EXEC" and inside is not None:
                for one, answer in zip(inside, reply if isinstance(reply, list) else [], strict=False):
                    self._saw(one, answer)
                inside = None
            elif inside is not None:
                inside.append(words)
            else:
                self._saw(words, reply)

    def _saw(self, words: Words, reply: Any) -> None:
        name = name_of(words)
        if isinstance(reply, redis.exceptions.NoScriptError):
            self._lost_scripts.add(name)
        if not name.islower() or isinstance(reply, Exception):
            return
        self.calls[name] += 1
        if name in self._lost_scripts and str(words[0]) == "EVAL":
            self._lost_scripts.discard(name)
            self.effects["script reloaded"] += 1
        if hasattr(self, f"_{name}") or name == "pause":
            args = [_text(word) for word in words[3 + int(words[2]) :]]
            prefix = _text(words[3]).removesuffix("schedule")
            args.insert(0, prefix)
            self.ledger.saw(name, args, reply)
            getattr(self, f"_{name}", lambda *_: None)(args, reply)

    def _append(self, args: list[str], reply: bytes) -> None:
        prefix, (mode, is_dry_run, words, _) = args[0], arrivals(args[1:])
        marks = marks_in(reply, len(words))
        is_undone = mode in ("none", "error") and any(mark[0] in "!#<" for mark in marks)
        self.effects["refused batch undone"] += is_undone and any(mark[0] == "+" for mark in marks)
        if is_dry_run or is_undone:
            for mark in marks:
                self.effects["conflict refused"] += mark[0] == "!"
                self.effects["late refused"] += mark[0] == "<"
            return
        for word, mark in zip(words, marks, strict=True):
            group, message_id, stamp = str(word[0]), str(word[1]), int(mark[1:])
            if mark[0] == "x":  # late: a dead letter from the beginning on
                self.stored[group, message_id, stamp] = None
                self.stamps[group, message_id].append(stamp)
                self.passed_us.setdefault((group, message_id, stamp), self.now_us)
            elif mark[0] == "+":
                if stamp <= self._ticks.get(prefix, 0):
                    self.problems.append(f"stamp {stamp} of {group}/{message_id} does not lie after the last one")
                self._ticks[prefix] = stamp
                is_behind = self.ledger.policy.sequence and float(word[2]) <= self.ledger.books[prefix, group].mark
                self.effects["skipped number came"] += is_behind
                self.stored[group, message_id, stamp] = None
                self.stamps[group, message_id].append(stamp)
                if self.is_remembered and len(self.stamps[group, message_id]) > 1:
                    self.problems.append(f"{group}/{message_id} was stored twice: {self.stamps[group, message_id]}")
            elif mark[0] == "~":
                self.refused_late.add((group, message_id))
            if mark[0] in EFFECTS:
                self.effects[EFFECTS[mark[0]]] += 1

    def _claim(self, args: list[str], reply: list[Any]) -> None:
        if len(reply) == 4 and isinstance(reply[2], int):
            return
        entries, token = orjson.loads(reply[2]), int(reply[1])
        if not entries:
            return
        if token <= self._tokens.get(args[0], 0):
            self.problems.append(f"token {token} is not greater than the one before, {self._tokens[args[0]]}")
        self._tokens[args[0]] = token
        self._holders.update({(args[0], str(entry[0])): token for entry in entries})
        steps = self.ledger.steps
        steps.holders.update({str(entry[0]): token for entry in entries})
        steps.claimed.update({(str(entry[0]), token): entry[4][:: int(entry[5])] for entry in entries})
        self.effects["lease taken"] += len(entries)
        self.effects["lease taken ahead"] += len(entries) if args[6] == "1" else 0
        self.effects["lease taken by worker slots"] += len(entries) if args[10] else 0
        is_beside = args[10] and len(entries) > 1
        self.effects["suspect taken beside others"] += sum(1 for entry in entries if entry[1]) if is_beside else 0
        self.effects["lease expired"] += sum(1 for entry in entries if entry[1])

    def _accepted(self, what: str, prefix: str, group: str, token: str) -> None:
        newest = self._holders.get((prefix, group), 0)
        if int(token) != newest:
            self.problems.append(f"{what} of group {group} was accepted under token {token}; the newest is {newest}")

    def _ack(self, args: list[str], reply: list[int]) -> None:
        refused = reply[1:]
        self.effects["stale token refused"] += len(refused)
        for position, group, token, *_ in acknowledgements(args[1]):
            if position not in refused:
                self._accepted("ack", args[0], group, token)

    def _renew(self, args: list[str], reply: list[int]) -> None:
        self.effects["stale token refused"] += len(reply)
        for position, (group, token) in enumerate(orjson.loads(args[1]), 1):
            if position not in reply:
                self.effects["lease renewed"] += 1
                self._accepted("renew", args[0], group, token)

    def _nack(self, args: list[str], reply: int) -> None:
        if not reply:
            self.effects["stale token refused"] += 1
        if reply in (0, -2):
            return
        self._accepted("nack", *args[:3])
        if args[6] in ("drop", "dead"):
            self._passed(args[1], args[3], is_gone=args[6] == "drop")

    def _save_step(self, args: list[str], reply: int) -> None:
        self.effects[f"save_step answered {reply}"] += 1
        self.effects["stale token refused"] += not reply
        if reply:
            self._accepted("save_step", *args[:3])

    def _resume(self, args: list[str], reply: list[Any]) -> None:
        for (group, _, member, *_), status in zip(orjson.loads(args[1]), reply[0], strict=True):
            if status == b"resumed" and args[2]:
                self.effects["message skipped"] += 1
                self._passed(group, member, is_gone=True)

    def _passed(self, group: str, member: str, *, is_gone: bool) -> None:
        name = group, member[STAMP_DIGITS:], int(member[:STAMP_DIGITS])
        self.passed_us.setdefault(name, self.now_us)
        if is_gone:
            self.given_up.add(name)

    def _skip_gap(self, args: list[str], reply: bytes) -> None:
        self.effects["gap stepped over"] += reply == b"skipped"

    def told(self, group: str, message_id: str, outcome: str | None, stamp: int | None) -> None:
        """A producer got this receipt for its append."""
        known, name = self.stamps[group, message_id], (group, message_id, stamp or 0)
        if outcome == "stored" and (stamp not in known or name in self._told):
            self.problems.append(f"{group}/{message_id} was told as stored now with {stamp}; it was with {known}")
        elif outcome == "duplicate" and stamp is not None and stamp not in known:
            self.problems.append(f"{group}/{message_id} was told as a duplicate of {stamp}; it was stored with {known}")
        if outcome == "stored":
            self._told.add(name)

    def _redrive(self, args: list[str], reply: bytes) -> None:
        self.effects["message redriven"] += reply.count(b"+")


def _text(word: Any) -> str:
    return word.decode("utf-8", "surrogateescape") if isinstance(word, bytes) else str(word)
