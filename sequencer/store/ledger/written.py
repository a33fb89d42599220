"""A ledger as a record keeps it: an effects digit, 4 hex digits of a serial, 6 of a length, and the bytes.

In Lua parts/record.lua cuts it, and parts/ledger.lua compares serials.
"""

from __future__ import annotations

from typing import NamedTuple

MAX_SERIAL = 0xFFFF
_HEAD = 1 + 4 + 6
_HEX = b"0123456789abcdefABCDEF"


class Written(NamedTuple):
    """A ledger as a record keeps it."""

    ledger: bytes
    """Encoded."""
    serial: int
    """From 0 to 65535: each write counts on by one, and 0 comes behind the last. A record whose own is not behind it is
    left as it is: so a late repeat undoes nothing."""
    has_effects: bool
    """Whether `cancel` and `replace` must not throw the message away."""

    def next(self, ledger: bytes, *, has_effects: bool) -> Written:
        """What the write behind this one brings."""
        return Written(ledger, (self.serial + 1) & MAX_SERIAL, has_effects)

    def text(self) -> bytes:
        """With the digits that stand before it."""
        return b"%d%04x%06x" % (self.has_effects, self.serial, len(self.ledger)) + self.ledger


def written_at(record: bytes, at: int) -> tuple[Written, int]:
    """The ledger that begins there, and where it ends. Never raises: a number that can't be read is 0."""
    begins = at + _HEAD
    ends = begins + _number(record[at + 5 : begins], 6)
    return Written(record[begins:ends], _number(record[at + 1 : at + 5], 4), record[at : at + 1] == b"1"), ends


def _number(digits: bytes, count: int) -> int:
    return int(digits, 16) if len(digits) == count and not digits.strip(_HEX) else 0
