"""The wording of what doctor finds: one example of each code, beside the file that holds them.

`python -m tests.unit.test_finding_texts` writes that file anew; read what changed in it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sequencer.texts.findings import FINDINGS, Finding
from sequencer.values.views import as_json

WORDED = Path(__file__).with_name("finding_texts.txt")
EXAMPLE: dict[str, Any] = {
    "namespace": "sequencer",
    "cli": "redis-cli",
    "server": "redis://host",
    "product": "Valkey",
    "version": "9.1.0",
    "policy": "allkeys-lru",
    "maxmemory": 1000,
    "used": 990,
    "refused": 2,
    "queues": ["orders"],
    "fsync": "everysec",
    "save": "",
    "name": "{sequencer:orders:0}:clock",
    "status": "err",
    "count": 3,
    "primary": "shop",
    "sentinel": "10.0.0.1:26379",
    "quorum": 2,
    "replicas": 1,
    "wanted": "1",
    "ahead_s": 2.5,
    "rights": "+zadd",
    "command": "ZADD",
    "error": "no",
    "index": "sequencer:queues",
    "value": "zz",
    "key": "{sequencer:orders:0}:policy",
    "deletable": True,
    "shard": 1,
    "generation": "1.1",
    "wanted_generation": "1.2",
    "wanted_version": "2",
    "differences": "on_late: 'drop', registered 'handle'",
    "known": 1,
    "messages": 5,
    "groups": 2,
    "dead": 1,
    "prefix": "{sequencer:orders:1}:",
    "unmoved": ("policy", "clock"),
    "to": "orders-shard-1",
    "to_prefix": "{sequencer:orders-shard-1:0}:",
    "shards": 2,
    "clock": "{sequencer:orders:0}:clock",
    "id": "m1",
    "letter": "m1",
    "example": "57.5",
    "probes": 1,
    "probe_in_s": 3.0,
    "owner": "shop.example:4711:00c0de",
    "held_s": 400.0,
    "since": 1_700_000_000.0,
    "waits_s": 90.0,
    "last_owner": "",
    "last_until": None,
    "connections": 0,
    "units": {"s": "group a: 1795000000", "ms": "group b: 1795000000000"},
    "window_s": 60.0,
    "bytes": 228,
    "bytes_a_second": 9120.0,
    "cap": 1000,
    "more": 4000,
    "repaired_count": 1,
    "left": 2,
    "fixable": 1,
    "primaries": 3,
    "slots": ["77", "93"],
    "place": "10.0.0.1:6379",
    "ahead": "10.0.0.1:6379",
    "behind": "10.0.0.2:6379",
    "apart_s": 1.5,
    "nodes": {"10.0.0.1:6379": 5, "10.0.0.2:6379": 6},
    "unreachable": [3, 7],
    "type": "string",
    "detail": "17",
}
OF_SERVER = {"version", "role", "loading", "eviction", "memory", "replicas", "rights", "sentinel"}
NO_QUEUE = {"append-only file", "append-only file without fsync", "snapshots", "disk write failed", "foreign index"}
NO_QUEUE |= {"server clock", "server clock off", "not checked", "not listed", "no queues", "invalid name"}


OF_NODE = {"node away", "full coverage required", "slots moving", "scripts broken"}
NO_QUEUE |= {"nodes", "node clocks apart", "primary without replica", "slots unassigned", *OF_NODE}
OF_GROUP = {"messages", "schedule", "leases", "failures", "dead letters"}


def worded() -> str:
    lines = []
    for code, kind in FINDINGS.items():
        fields = {**EXAMPLE}
        if not (kind.check in OF_SERVER or code in NO_QUEUE):
            fields["queue"] = "orders"
        if code in OF_NODE:
            fields["node"] = "10.0.0.1:6379"
        if kind.check in OF_GROUP and code != "removed":
            fields["group"] = ("1002", "a b")
        lines.append(f"{code} ({kind.level}, {kind.check})\n  {Finding(code, fields).text}")
        if kind.repair:
            lines.append(f"  {Finding(code, fields, repaired=True).text}")
    return "\n".join(lines) + "\n"


def test_each_code_has_its_wording() -> None:
    assert worded() == WORDED.read_text(encoding="utf-8")


@pytest.mark.parametrize("code", FINDINGS)
def test_a_finding_in_json_has_code_fields_text_and_commands(code: str) -> None:
    found = Finding(code, EXAMPLE | {"queue": "orders", "group": ("g",)})
    said = as_json(found)
    assert (said["code"], said["text"], said["commands"]) == (code, found.text, found.commands)
    assert all(line in found.text for line in found.commands.values())


if __name__ == "__main__":
    WORDED.write_text(worded(), encoding="utf-8")
