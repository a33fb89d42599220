"""The call of outage.lua, and what the server says of an outage that holds a shard back."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from ..store.keys import ShardKeys
from .call import Call, on_shard

Ending = Literal["closed", "probing", "none", "other"]


class Waits(NamedTuple):
    """How long a group waits after an outage, in seconds: doubled up to the longest; `probe_s`: as the handler said."""

    first_s: float
    longest_s: float
    probe_s: float | None = None


class ShardOutage(NamedTuple):
    """An outage that holds a shard back; times in us of the server's clock."""

    now_us: int
    since_us: int  # of the first failure
    probe_us: int  # when it is probed next
    is_new: bool = False  # whether this failure began it

    @property
    def probe_s(self) -> float:
        """Seconds until the next probe."""
        return max(0.0, (self.probe_us - self.now_us) / 1e6)


class Began(NamedTuple):
    """An outage that a failure began."""

    outage: ShardOutage
    failure: bytes


class ProbeEnd(NamedTuple):
    """How a probe ended: "close", since its handler ran to its end; "probe", since it did not run."""

    action: Literal["close", "probe"]
    token: str


class Ended(NamedTuple):
    """What `outage` did: "closed" and "probing", "none" where no outage was, "other" where the probe was another's."""

    status: Ending
    lasted_s: float
    probes: int  # how many of them failed
    failure: bytes  # the last one of it


def _parse_ended(reply: list[Any]) -> Ended:
    status, now_us, since_us, probes, failure = reply
    lasted_s = max(0.0, (int(now_us) - int(since_us)) / 1e6) if since_us else 0.0
    return Ended(status.decode(), lasted_s, int(probes or 0), failure)


def outage(keys: ShardKeys, action: Literal["close", "probe"], token: str = "") -> Call[Ended]:
    """End the outage, as a probe got through; or probe it now. With a token, `probe` releases an untried probe."""
    return on_shard(keys, "outage", action, token, parse=_parse_ended)
