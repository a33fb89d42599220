"""One worded example of each event, in each of its shapes: `python -m tests.support.catalogue` writes them anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sequencer.texts.events import NO_BODY, Event, event

FILE = Path(__file__).parents[1] / "unit" / "events.txt"
OWNER = "host.example:4711:0000ff"
GROUP: dict[str, Any] = {"group": ["1002", "a b"], "owner": OWNER}
MESSAGE: dict[str, Any] = GROUP | {"id": "m1"}
FAILED: dict[str, Any] = MESSAGE | {"attempt": 2, "error": ValueError("no stock")}
GAP: dict[str, Any] = MESSAGE | {"number": 9, "first_missing": 6, "last_missing": 8}
BEGUN: dict[str, Any] = {"group": ["1002", "a b"], "id": "m1"}
ASKED = {"error_type": "StepUnknown", "error": "step charge began", "steps": ["charge", "ship"], "runs": [2, 1]}
DEATHS = {"deaths": 5, "is_final": False}
RUN = {
    "seconds": 61.234,
    "consumers": 2,
    "handled": 1200,
    "failed": 12,
    "outages": 9,
    "lost": 0,
    "parked": 3,
    "dead": 1,
    "dropped": 0,
    "started": 3,
    "died": 1,
    "killed": 0,
    "unreported": 1,
}


def examples() -> list[Event]:
    """Each event of the list, with each of its fields."""
    return [event(name, "" if name in ALL_QUEUES else "orders", **fields) for name, fields in EXAMPLES]


ALL_QUEUES = {
    "http started",
    "already running",
    "service reloading",
    "service reloaded",
    "lines lost",
    "alert not sent",
}
EXAMPLES: list[tuple[str, dict[str, Any]]] = [
    ("message failed", FAILED | {"attempts": 5, "retry_in_s": 0.341}),
    ("message failed", FAILED | {"outage": True, "retry_in_s": 2.0}),
    ("message failed", FAILED | {"outage": True, "retry_in_s": 5.0, "since": 1e9}),
    ("message failed", FAILED | {"step": "charge", "retry_in_s": 0.341}),
    ("message failed", FAILED),
    ("group parked", FAILED | {"attempts": 2, "parked": 1}),
    ("group parked", FAILED | {"step": "charge", "parked": 2}),
    ("group parked", FAILED | {"parked": 2, "error_type": "Undecodable", "error": "it is no JSON"}),
    ("group parked", FAILED | {"parked": 2, "error_type": "Undecodable", "error": NO_BODY}),
    ("group parked", FAILED | ASKED | {"parked": 1}),
    ("group parked", FAILED | {"parked": 1, "error_type": "StepResultInvalid", "steps": ["charge"]}),
    ("group parked", GAP),
    ("outbox rows held", BEGUN | {"count": 10_000, "error": ValueError("other content")}),
    ("outbox sent again", {"shard": 0, "known": 9, "stored": 4}),
    ("relay failed", {"error": ConnectionError("it is gone")}),
    ("relay restored", {}),
    ("message handled", MESSAGE | {"attempt": 1, "took_s": 0.0123}),
    ("step done", MESSAGE | {"attempt": 2, "step": "charge", "took_s": 61.5}),
    ("dead letter", FAILED | {"attempts": 5}),
    ("dead letter", FAILED | {"step": "charge"}),
    ("dead letter", FAILED | {"error_type": "TooLate", "error": "it is below 5", "late": True}),
    ("dead letter", FAILED | ASKED),
    ("message dropped", FAILED | {"late": True}),
    ("message dropped", FAILED | {"attempts": 5}),
    ("message dropped", FAILED | {"step": "charge", "ledger": b'{"k":1}'}),
    ("outage began", {"owner": OWNER, "error": ConnectionError("refused"), "since": 1e9, "retry_in_s": 2.0}),
    ("outage ended", {"owner": OWNER, "lasted_s": 92.5, "probes": 20}),
    ("step failed", FAILED | {"attempts": 5, "step": "charge", "is_check": True}),
    ("finished with failures", MESSAGE | {"steps": {"mail": "ValueError: no address", "print": ""}}),
    ("step missing", MESSAGE | {"error": LookupError("no step mail"), "retry_in_s": 570.0}),
    ("message removed", MESSAGE | {"ledger": b'{"k":1}'}),
    ("message released", MESSAGE),
    ("message released", MESSAGE | {"step": "charge"}),
    ("handler slow", MESSAGE | {"runs_s": 61.0, "is_stopping": False}),
    ("handler slow", MESSAGE | {"runs_s": 6.0, "is_stopping": True}),
    ("handler stuck", MESSAGE | {"runs_s": 8.0, "is_killed": False}),
    ("handler stuck", MESSAGE | {"runs_s": 8.0, "is_killed": True}),
    ("loop blocked", {"owner": "host:1:0000ff", "blocked_s": 1.2, "place": "/srv/shop.py:7 in pay", "is_over": False}),
    ("loop blocked", {"owner": "host:1:0000ff", "blocked_s": 5.0, "place": "/srv/shop.py:7 in pay", "is_over": True}),
    ("gap wait", GAP | {"until": 1e9}),
    ("gap wait", GAP | {"last_missing": 6, "until": 1e9}),
    ("gap wait", GAP | {"first_missing": None, "until": 1e9}),
    ("group broken", GROUP | {"error": "WRONGTYPE"}),
    ("lease expired", MESSAGE | {"expired_owner": "host:1:0000ff", "attempt": 1}),
    ("lease lost", GROUP | {"token": "5"}),
    ("ack repeated", GROUP),
    ("server lost", {"owner": OWNER, "code": "unreachable", "error": "127.0.0.1:6379 refuses connections"}),
    ("server back", {"owner": OWNER, "away_s": 2.5}),
    ("renewal failed", {"owner": OWNER, "error": RuntimeError("unforeseen")}),
    ("groups not released", {"owner": OWNER, "error": "it is away"}),
    ("failure not recorded", GROUP | {"error": "it is away"}),
    ("observer failed", {"observer": "to_sentry", "error": OSError("no network")}),
    ("service started", {"server": "s", "app": "app a:b", "processes": 1, "lease_s": 15.0, "version": "1"}),
    ("http started", {"address": "127.0.0.1:9464"}),
    ("queue not listed", {"error": "it is a string"}),
    ("queue unused", {}),
    ("consumer died", {"consumer_pid": 7, "status": -9, "lived_s": 3.0} | BEGUN),
    ("consumer restarting", {"retry_in_s": 1.0}),
    ("service gave up", DEATHS),
    ("service gave up", {"deaths": 1, "is_final": True}),
    ("consumer not started", {"error": OSError("no more processes")}),
    ("service stopping", {"stage": 1, "consumers": 2, "grace_s": None}),
    ("service stopping", {"stage": 1, "consumers": 2, "grace_s": 30.0}),
    ("service stopping", {"stage": 2, "consumers": 1, "grace_s": None}),
    ("service stopping", {"stage": 3, "consumers": 1, "grace_s": None}),
    ("service stopping", {"stage": 1, "consumers": 0, "grace_s": None}),
    ("consumer killed", {"consumer_pid": 7, "why": "not exited", "after_s": 2.0, "threads": ["worker"]} | BEGUN),
    ("consumer killed", {"consumer_pid": 7, "why": "silent", "after_s": 45.0, "threads": []}),
    ("lines lost", {"lines": 3, "error": "No space left on device"}),
    ("service ended", RUN),
    ("service ended", dict.fromkeys(RUN, 0) | {"parked": 1, "failed": 1}),
    ("consumer failed", {"error": ValueError("no handler")}),
    ("pool down", DEATHS | {"retry_in_s": 60.0}),
    ("pool back", {"lasted_s": 61.0}),
    ("pool scaled", {"before": 2, "now": 3, "why": "waiting", "due": 3, "waits_s": 2.0}),
    ("already running", {"file": "/srv/shop/sequencer.toml", "other_pid": 77}),
    ("consumer overdue", {"consumer_pid": 7, "lived_s": 4900.0, "kill_in_s": 15.0} | BEGUN),
    ("service reloading", {"file": "/srv/shop/sequencer.toml"}),
    ("service reloaded", {"file": "/srv/shop/sequencer.toml"}),
    ("reload failed", {"error": "no module 'shop'"}),
    ("check failed", {"text": "the disk is full"}),
    ("alert sent", {"target": "hook", "kind": "parked", "what": "open"}),
    ("alert not sent", {"target": "hook", "error": "it answered 500"}),
    ("output closed", {}),
    ("supervisor error", {"what": "watching the queue", "error": RuntimeError("unforeseen")}),
    ("policy changed", {"policy": "on_late", "before": "handle", "now": "drop"}),
    ("operator", BEGUN | {"action": "resume", "who": "ann"}),
    ("operator", BEGUN | {"action": "skip", "who": "ann", "error": "its outcome is unknown"}),
    ("operator", {"action": "skip-many", "who": "operate", "count": 1200}),
    ("queue created", {"near": ""}),
    ("queue created", {"near": "order"}),
    ("queue restored", {"shards": 4, "from_shard": False}),
    ("queue restored", {"shards": 1, "from_shard": True}),
    ("shards unreachable", {"unreachable": [3, 7], "error": "server 10.0.0.7:6379 can't be reached"}),
    ("consumer error", {"what": "what is done each second", "error": RuntimeError("unforeseen")}),
]


def worded() -> str:
    """The file: each example as the log shows it, a command a line."""
    lines = []
    for one in examples():
        lines += [one.text, *(f"    {name}: {line}" for name, line in one.commands.items())]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    FILE.write_text(worded())
