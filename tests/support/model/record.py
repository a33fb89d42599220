"""A record as the contracts of the scripts describe it, in text: cut and put together, without the product's code."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace

LEDGER = re.compile(r"(.)(.{4})([0-9a-fA-F]{6})", re.DOTALL)


@dataclass(frozen=True)
class Cut:
    """The pieces of a record."""

    stamp: str
    attempts: str
    flag: str
    """In upper case."""
    due: str
    ledger: str
    """With effects digit, serial and length; "" for none."""
    envelope: str

    @classmethod
    def of(cls, record: str) -> Cut:
        stamp, attempts, flag, rest = record[:16], record[16:20], record[20:21], record[21:]
        has_ledger = flag in tuple("aodtr")
        flag = {"o": "0"}.get(flag, flag.upper()) if has_ledger else flag
        due, rest = (rest[:16], rest[16:]) if flag in ("D", "T") else ("", rest)
        if not has_ledger:
            return cls(stamp, attempts, flag, due, "", rest)
        found = LEDGER.match(rest)
        size = 11 + (int(found[3], 16) if found else 0)
        return cls(stamp, attempts, flag, due, rest[:size], rest[size:])

    def text(self) -> str:
        flag = self.flag if not self.ledger else "o" if self.flag not in "ADTR" else self.flag.lower()
        return self.stamp + self.attempts + flag + self.due + self.ledger + self.envelope

    @property
    def has_effects(self) -> bool:
        return self.ledger[:1] == "1"

    def with_ledger(self, ledger: str) -> Cut:
        """With this one, unless it is not newer; "" leaves what is there."""
        if not ledger or (self.ledger and not is_newer(ledger, self.ledger)):
            return self
        return replace(self, ledger=ledger)


def is_newer(ledger: str, before: str) -> bool:
    return 0 < (int(ledger[1:5], 16) - int(before[1:5], 16)) % 65536 < 32768


def without_log(failure: str, sent: str) -> str:
    """The failure as its consumer sent it, if the script only put the log of at most four before it in front."""
    if failure.startswith('{"log":') and failure.endswith(f",{sent[1:]}") and len(json.loads(failure)["log"]) <= 4:
        return sent
    return failure
