"""How many suspects a consumer with many worker slots works on at once. Pure.

A suspect is a group whose lease expired: what its consumer died of may be its head. When a process with hundreds of
slots dies, all its groups become suspects. Few are taken at first, and one more with each that ends, so that of the
next death few are charged. One that was charged before runs beside no other suspect: if it kills again, nobody else
pays for it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

MOST = 64
"""At once. With more, one that kills late charges many."""


@dataclass(slots=True)
class Suspects:
    """Those that one process works on, by group and token."""

    max_attempts: int
    ended: int = 0
    running: dict[tuple[str, str], bool] = field(default_factory=dict)  # whether each was charged before

    def room(self) -> int:
        """How many more the next claim may take. Where one charge or two park a group, always one at a time."""
        if any(self.running.values()):
            return 0
        most = 1 if self.max_attempts < 3 else min(1 + self.ended, MOST)
        return max(0, most - len(self.running))

    def began(self, key: str, token: str, *, was_charged: bool) -> None:
        self.running[key, token] = was_charged

    def finished(self, key: str, token: str) -> None:
        """However its head ended, the process outlived it."""
        if self.running.pop((key, token), None) is not None:
            self.ended += 1
