"""One shard of a queue and its scripts, at times that the test gives: what they answer, and what they leave."""

from __future__ import annotations

from typing import Any, TypeVar

from sequencer.calls.append import OnConflict, append
from sequencer.calls.call import Call
from sequencer.calls.claim import Claimed, LeasedGroup, claim
from sequencer.calls.settle import Ack, Acked, Nack, ack, nack
from sequencer.net.link import Link
from sequencer.settings.options import ClaimLimits
from sequencer.settings.policy import Policy
from sequencer.store.item import Item
from sequencer.store.keys import ShardKeys
from sequencer.store.registration import Registration, plain_tags

T = TypeVar("T")
SECOND = 1_000_000
NOW_US = 1_700_000_000 * SECOND
MUCH = ClaimLimits(1000, 1000, 10**8)


def policy_words(policy: Policy) -> list[str]:
    """The fields of a shard that has it."""
    one = Registration(7, 0, plain_tags(1), policy.stored())
    return [word for pair in one.policy.items() for word in pair] + ["packed", one.packed()]


def item(group: str, id: str, score: str = "", body: str = "1", due: str = "") -> Item:
    return Item(group, id, score, f"[{body}]".encode(), due)


def at(call: Call[T], now_us: float) -> Call[T]:
    """The call as if the server's clock showed this."""
    return call._replace(now=f"{now_us:.0f}")


class Shard:
    """The scripts of one shard; `now` is the time in us that each is told."""

    def __init__(self, link: Link, keys: ShardKeys) -> None:
        self.link, self.keys, self.now = link, keys, NOW_US

    def rules(self, policy: Policy) -> None:
        self.link.command("HSET", self.keys.policy, *policy_words(policy))

    def later(self, seconds: float) -> None:
        self.now += round(seconds * SECOND)

    def run(self, call: Call[T]) -> T:
        return self.link.run_one(at(call, self.now))

    # -- scripts ----------------------------------------------------------------------------------------------

    def append(self, *items: Item, on_conflict: OnConflict = "none", dry_run: bool = False) -> list[str]:
        """What became of each."""
        call = append(self.keys, items, on_conflict=on_conflict, dry_run=dry_run)
        return [mark.outcome for mark in self.run(call)]

    def claimed(self, limits: ClaimLimits = MUCH, **options: Any) -> Claimed:
        return self.run(claim(self.keys, "q", "me", 5.0, limits, **options))

    def claim(self, limits: ClaimLimits = MUCH, **options: Any) -> dict[str, LeasedGroup]:
        return {one.key: one for one in self.claimed(limits, **options).groups}

    def ack(
        self, lease: LeasedGroup, *, count: int = 1000, mark: str = "", release: bool = True, follows: str = ""
    ) -> Acked:
        entry = Ack(lease.key, lease.token, lease.members[:count], release, mark, next=follows)
        return self.run(ack(self.keys, [entry]))

    def nack(self, lease: LeasedGroup, delay_s: float | None, *, failure: bytes = b"", **words: Any) -> bool:
        """`failure`: that of its head, unless given."""
        member = lease.members[0]
        attempts = words.pop("attempts", 1)
        told = failure or b'{"member":"%s","type":"ValueError"}' % member.encode()
        entry = Nack(lease.key, lease.token, member, attempts, delay_s, told, **words)
        return self.run(nack(self.keys, entry)).is_valid

    def handle(self, group: str, mark: str = "") -> None:
        """All that may be handled of a group, which is the only one due."""
        lease = self.claim()[group]
        assert self.ack(lease, mark=mark) == ([], False)

    # -- what they leave --------------------------------------------------------------------------------------

    def hints(self) -> list[str]:
        """Of groups, for a consumer that waits."""
        return [hint.decode() for hint in self.link.command("LRANGE", self.keys.dispatch, 0, -1)]

    def forget_hints(self) -> None:
        self.link.command("DEL", self.keys.dispatch)

    def visible(self, group: str) -> float | None:
        at = self.link.command("ZSCORE", self.keys.schedule, group)
        return None if at is None else float(at)

    def ids(self, group: str) -> list[str]:
        """Of its messages in order; each has its record."""
        members = [member.decode() for member in self.link.command("ZRANGE", self.keys.order(group), 0, -1)]
        assert {member[16:].encode() for member in members} == set(self.link.command("HKEYS", self.keys.body(group)))
        return [member[16:] for member in members]

    def total(self, name: str) -> int:
        return int(self.link.command("HGET", self.keys.stats, name) or 0)

    def dump(self) -> dict[bytes, Any]:
        """Every key of the shard, as the server would write it into a file."""
        names = self.link.command("KEYS", self.keys.prefix + "*")
        return {name: self.link.command("DUMP", name) for name in names}
