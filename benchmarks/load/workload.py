"""Which messages a benchmark appends: their groups, ids and bodies, the same for every system under test. Pure.

A group belongs to one producer (`group % producers`), so the order of its messages is known without asking the system:
it is the order of the producer's own count. Everything follows from the seed, so the judge can make the list again.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

ZIPF_GROUPS = 5000
MAX_GROUPS = 1_000_000
BODY_BYTES = 200


@dataclass(frozen=True, slots=True)
class Spread:
    """How messages fall on groups: evenly, or by Zipf's law (the k-th group gets a share of 1/k)."""

    groups: int
    is_zipf: bool = False

    @classmethod
    def parse(cls, text: str) -> Spread:
        """`zipf`, or a number of groups. Raises ValueError."""
        if text == "zipf":
            return cls(ZIPF_GROUPS, True)
        if not (text.isascii() and text.isdigit() and 1 <= int(text) <= MAX_GROUPS):
            raise ValueError(f"scenario {text!r} must be 'zipf' or a number of groups from 1 to {MAX_GROUPS}")
        return cls(int(text))

    @property
    def name(self) -> str:
        """As it is given on the command line."""
        return "zipf" if self.is_zipf else str(self.groups)

    @property
    def title(self) -> str:
        """As it is shown."""
        if self.is_zipf:
            return f"{self.groups:,} groups, zipf"
        return f"{self.groups:,} group{'s' if self.groups > 1 else ''}"


class Planned(NamedTuple):
    """One message to append. `number` counts the messages of its producer: the order of arrival in its group."""

    group: str
    id: str
    number: int

    def body(self) -> dict[str, Any]:
        """About BODY_BYTES of JSON."""
        body = {"number": self.number, "reqId": self.id, "type": "order.paid", "note": ""}
        body["note"] = "x" * (BODY_BYTES - 75 - len(self.id))
        return body


@dataclass(frozen=True, slots=True)
class Workload:
    """All messages of one run, and which producer appends which."""

    spread: Spread
    messages: int
    producers: int
    seed: int

    @property
    def active_producers(self) -> int:
        """A producer without a group has nothing to do: one group has one producer."""
        return min(self.producers, self.spread.groups)

    def share(self, producer: int) -> int:
        """How many messages this producer appends."""
        whole, rest = divmod(self.messages, self.active_producers)
        return whole + (producer < rest)

    def planned(self, producer: int) -> Iterator[Planned]:
        """One producer's messages, in the order in which it appends them."""
        chance = random.Random(f"{self.seed}/{producer}")
        groups = range(producer, self.spread.groups, self.active_producers)
        weights = list(accumulate(1 / (group + 1) for group in groups)) if self.spread.is_zipf else None
        chosen = chance.choices(groups, cum_weights=weights, k=self.share(producer))
        for number, group in enumerate(chosen, 1):
            # Ids are random, as request ids are: their byte order says nothing about their age.
            yield Planned(f"g{group}", f"{chance.getrandbits(64):016x}", number)

    def numbers(self) -> dict[tuple[str, str], int]:
        """Every (group, id) that is appended, with its producer's number."""
        return {
            (message.group, message.id): message.number
            for producer in range(self.active_producers)
            for message in self.planned(producer)
        }
