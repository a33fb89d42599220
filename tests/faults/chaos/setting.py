"""What the processes of one chaos run have in common: where they meet, how they connect, how long a lease is.

It reaches them as JSON in an environment variable, for the consumers are started by the product's own supervisor.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from sequencer.client import Sequencer
from sequencer.net.endpoint import Connection, Endpoint

from ...support.judge.history import Recorder

VARIABLE = "SEQUENCER_CHAOS"
QUEUE = "chaos"
POLICIES: Mapping[str, Mapping[str, Any]] = {
    "default": {},
    "shards": {"shards": 3},
    "reorder_window": {"reorder_window": 0.05},
    "sequence": {"sequence": True, "gap_timeout": 1.0, "on_gap": "skip"},
}
"""Variants of the queue, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One run. Times in seconds."""

    home: str = ""
    """The directory of its histories and sockets."""
    seed: int = 0
    lease_s: float = 1.0
    timeout_s: float = 0.4
    """How long a client waits for an answer; the product's own 5 s would make each black hole one of 5 s."""
    policy: str = "default"
    mutant: str = ""
    """A promise that the run breaks on purpose; "" for none. See `victim.py` and `producer.py`."""

    @property
    def concurrency(self) -> int | None:
        """Of each consumer: one seed in three has one handler at a time, one has threads, one coroutines."""
        return (None, 8, 16)[self.seed % 3]

    @property
    def has_loop(self) -> bool:
        return self.seed % 3 == 2

    @classmethod
    def from_environment(cls) -> Setting:
        return cls(**orjson.loads(os.environ.get(VARIABLE, "{}")))

    def environment(self) -> dict[str, str]:
        """The environment of a process of this run."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SEQUENCER_")}
        return {**kept, VARIABLE: self._text}

    @property
    def mark(self) -> str:
        """The entry by which a process of this run is known."""
        return f"{VARIABLE}={self._text}"

    @property
    def _text(self) -> str:
        return orjson.dumps(asdict(self)).decode()

    @property
    def proxy_path(self) -> Path:
        return Path(self.home) / "p"

    @property
    def is_healed(self) -> bool:
        """Whether the faults are over: handlers do not fail any more, and producers end."""
        return (Path(self.home) / "healed").exists()

    def heal(self) -> None:
        (Path(self.home) / "healed").touch()

    def sequencer(self, url: str = "") -> Sequencer:
        """The queue of this run through the proxy, or at `url`."""
        endpoint = patient_for(Endpoint.from_url(url or f"unix://{self.proxy_path}"), self.timeout_s)
        return Sequencer(QUEUE, endpoint, backoff=0.05, backoff_cap=0.5, **POLICIES[self.policy])

    def recorder(self, role: str) -> Recorder:
        """The history of this process."""
        return Recorder(Path(self.home) / f"{role}-{os.getpid()}.events")


def patient_for(endpoint: Endpoint, timeout_s: float) -> Endpoint:
    """The endpoint, with answers awaited for so long."""

    def make() -> Connection:
        connection = endpoint.make()
        connection.socket_timeout = connection.socket_connect_timeout = timeout_s
        return connection

    return Endpoint(make, endpoint.name, endpoint.url)
