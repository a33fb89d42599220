"""`explain`: each reason with its sentence and the time until the group moves, from what the server says."""

from __future__ import annotations

import json
import math
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sequencer.calls.examine import HeldBack
from sequencer.errors import StepUnknown
from sequencer.queue.explain import explanation
from sequencer.settings.options import QueueOptions
from sequencer.settings.policy import Policy
from sequencer.store.failure import encode_failure, log_of
from sequencer.store.keys import PAUSED
from sequencer.texts.commands import with_commands
from sequencer.texts.explanations import WORDINGS, Reason
from sequencer.values.message import Failure
from sequencer.values.views import as_json

from ..support.listed_net import facts

NOW = 1_700_000_100_000_000
STAMP = "1700000099000000"
MEMBER = f"{STAMP}m1"
LEASE = b"1700000098000000" + b"1host-7"
FAILURE = encode_failure(Failure("m1", "ValueError", "no\nstock", "", 3, 0.0, "host-7"), MEMBER)
QUESTION = StepUnknown("step charge began, and its outcome is unknown")
ASKED = encode_failure(Failure("m1", "StepUnknown", str(QUESTION), "", 3, 0.0, "host-7"), MEMBER)
SOUND = facts(
    visible_us=NOW - 2_000_000.0, order_size=2, body_size=2, head=MEMBER, head_record=f"{STAMP}00000[1]".encode()
)
LATER, INF = NOW + 5_000_000.0, math.inf
AT = "2023-11-14 22:15:05"
GAP, SKIP = Policy(sequence=True, gap_timeout=4.0), Policy(sequence=True, gap_timeout=4.0, on_gap="skip")
DELAYED = f"{STAMP}0000D{NOW + 5_000_000}[1]".encode()
"""The head's own time is LATER."""

HELD_BACK = HeldBack(NOW - 2_000_000, int(LATER), b'{"type":"ConnectionError","message":"refused"}')

OPTIONS = QueueOptions(queue="orders", namespace="shop")
HANGS: dict[str, Any] = {"lease": b"1700000020000000" + b"1shop.example:4711:00c0de", "visible_us": LATER}
BACKS_OFF: dict[str, Any] = {"failure": FAILURE, "visible_us": LATER}
OUTAGES = b'{"id":"m1","outages":11,"attempt":3}'
REASONS: list[tuple[str, dict[str, Any], Policy, float | None, dict[str, Any]]] = [
    ("nothing", {"order_size": 0, "body_size": 0, "visible_us": None, "head": ""}, Policy(), None, {}),
    ("due", {}, Policy(), 0.0, {"waits_s": 2.0, "expired_owner": ""}),
    ("due", {"lease": LEASE}, Policy(), 0.0, {"waits_s": 2.0, "expired_owner": "host-7"}),
    ("leased", {"lease": LEASE, "visible_us": LATER}, Policy(), 5.0, {"owner": "host-7", "held_s": 2.0}),
    ("leased", HANGS, Policy(), 5.0, {"held_s": 80.0, "is_long": True}),
    ("leased", {"lease": LEASE, "visible_us": LATER, "is_paused": True}, Policy(), 5.0, {"is_paused": True}),
    ("backoff", BACKS_OFF, Policy(), 5.0, {"attempt": 3, "id": "m1", "error": "ValueError: no"}),
    ("backoff", {"failure": OUTAGES, "visible_us": LATER}, Policy(), 5.0, {"outages": 11, "is_counted": False}),
    ("outage", {"outage": HELD_BACK}, Policy(), 5.0, {"error": "ConnectionError: refused", "until": LATER / 1e6}),
    ("outage", {"outage": HELD_BACK, "failure": FAILURE, "visible_us": LATER}, Policy(), 5.0, {}),
    ("leased", {"outage": HELD_BACK, "lease": LEASE, "visible_us": LATER}, Policy(), 5.0, {"owner": "host-7"}),
    ("queue paused", {"outage": HELD_BACK, "is_queue_paused": True}, Policy(), None, {}),
    ("delayed", {"head_record": DELAYED, "visible_us": LATER}, Policy(), 5.0, {"until": LATER / 1e6}),
    ("window", {"visible_us": LATER}, Policy(reorder_window=6.0), 5.0, {"until": LATER / 1e6}),
    ("gap", {"visible_us": LATER}, GAP, 3.0, {"first": 1, "last": 6, "number": 7, "on_gap": "park"}),
    ("gap", {"visible_us": LATER, "mark": "#5"}, SKIP, 3.0, {"first": 6, "last": 6, "on_gap": "skip"}),
    ("gap", {"visible_us": INF, "mark": "#5"}, Policy(sequence=True, gap_timeout=0.5), None, {"first": 6}),
    ("parked", {"visible_us": INF, "failure": FAILURE}, Policy(), None, {"id": "m1", "attempt": 3}),
    ("paused", {"visible_us": PAUSED, "is_paused": True}, Policy(), None, {}),
    ("paused", {"is_paused": True}, Policy(), None, {}),
    ("queue paused", {"is_queue_paused": True}, Policy(), None, {}),
    ("broken", {"order_size": -1}, Policy(), None, {"what": "wrong type"}),
    ("broken", {"body_size": -1}, Policy(), None, {"what": "wrong type"}),
    ("broken", {"body_size": 1}, Policy(), None, {"what": "order and body differ"}),
    ("broken", {"visible_us": None}, Policy(), None, {"what": "group unscheduled"}),
    ("broken", {"order_size": 0, "body_size": 0, "head": ""}, Policy(), None, {"what": "empty group scheduled"}),
    ("broken", {"head_record": b""}, Policy(), None, {"what": "message without record"}),
    ("broken", {"visible_us": INF, "lease": LEASE, "failure": FAILURE}, Policy(), None, {"what": "leased and parked"}),
    ("broken", {"visible_us": INF}, Policy(), None, {"what": "parked without reason"}),
    ("broken", {"visible_us": INF, "mark": "#6"}, GAP, None, {"what": "parked without reason"}),
    ("broken", {"visible_us": PAUSED}, Policy(), None, {"what": "paused without entry"}),
    ("unresolved step", {"visible_us": INF, "failure": ASKED}, Policy(), None, {"id": "m1", "message": str(QUESTION)}),
]


@pytest.mark.parametrize(
    ("reason", "changes", "policy", "moves_in_s", "fields"), REASONS, ids=[f"{n}-{r[0]}" for n, r in enumerate(REASONS)]
)
def test_each_reason_has_its_fields(
    reason: str, changes: dict[str, Any], policy: Policy, moves_in_s: float | None, fields: dict[str, Any]
) -> None:
    found = SOUND._replace(**changes)
    said = explanation("user:1%3A2", found, policy, OPTIONS)
    assert (said.reason, said.group, said.backlog) == (reason, ("user", "1:2"), max(0, found.order_size))
    assert {**said.fields, **fields} == said.fields
    assert said.moves_in_s == (None if moves_in_s is None else pytest.approx(moves_in_s))
    assert said.text.startswith("group user 1:2 ")
    assert "\n" not in said.text
    assert as_json(said)["text"] == said.text


def test_every_reason_is_tried_here() -> None:
    told = {reason for reason, *_ in REASONS} | {"no consumers"}  # of a shard as a whole: see below
    assert told == {*get_args(Reason)} == {*WORDINGS}


@pytest.mark.parametrize(
    ("changes", "commands"),
    [
        ({"visible_us": INF, "failure": FAILURE}, {"retry": "resume", "skip": "skip"}),
        (BACKS_OFF, {"retry": "resume"}),
        ({"visible_us": PAUSED, "is_paused": True, "failure": FAILURE}, {"unpause": "unpause"}),
    ],
)
def test_what_makes_a_group_move_is_named_as_commands(changes: dict[str, Any], commands: dict[str, str]) -> None:
    found = explanation("user:1%3A2", SOUND._replace(**changes), Policy(), OPTIONS)
    lines = {purpose: f"sequencer {name} orders user 1:2 --namespace shop" for purpose, name in commands.items()}
    assert found.commands == lines


def test_what_drops_a_message_that_hangs_is_named_in_its_order() -> None:
    found = explanation("g", SOUND._replace(**HANGS), Policy(), OPTIONS)
    pause, kill, skip, unpause = found.commands.values()
    assert (pause, kill) == ("sequencer pause orders g --namespace shop", "kill -KILL 4711")
    assert skip == "sequencer skip orders g --id m1 --dead-letter --namespace shop"
    assert unpause == "sequencer unpause orders g --namespace shop"


WORDED: dict[str, tuple[dict[str, Any], str]] = {
    "due": ({}, "group g has been due for 2.0 s and waits for a free consumer"),
    "leased": (
        HANGS,
        f"group g has been leased by shop.example:4711:00c0de for 80.0 s, until {AT} UTC unless renewed; it moves when "
        "m1 is handled; that is long: set --handler-timeout; if its handler hangs, kill that consumer; if it is "
        "already gone, its lease expires by itself; to drop m1 instead, run these in order, the skip once the lease "
        "has expired",
    ),
    "backoff": (BACKS_OFF, f"group g backs off until {AT} UTC after 3 failed attempts of m1 (ValueError: no)"),
    "parked": (
        {"visible_us": INF, "failure": FAILURE},
        "group g is parked on m1 after 3 failed attempts (ValueError: no)",
    ),
    "paused": (
        {"is_paused": True, "visible_us": INF, "failure": FAILURE},
        "group g is paused; apart from that, it is parked on m1 after 3 failed attempts (ValueError: no)",
    ),
    "broken": ({"body_size": 1}, "group g is broken (order and body differ)"),
}


@pytest.mark.parametrize("reason", WORDED)
def test_the_wording(reason: str) -> None:
    changes, text = WORDED[reason]
    found = explanation("g", SOUND._replace(**changes), Policy(), OPTIONS)
    assert found.reason == reason
    assert found.text == with_commands(text, found.commands)


@pytest.mark.parametrize("kind", ["outages", "missing"])
def test_what_counted_no_attempt_has_none_in_the_log(kind: str) -> None:
    """Else `explain` would list it as one of the failed attempts."""
    record = json.loads(FAILURE) | {"log": [[1, 5.0, "ValueError: no"]], "attempt": 2}
    tried = [log_of(json.dumps(record | more).encode()) for more in ({}, {kind: 1})]
    assert [[one.attempt for one in log] for log in tried] == [[1, 2], [1, 0]]


FACTS = st.fixed_dictionaries(
    {
        "visible_us": st.sampled_from([None, 0.0, NOW - 1.0, LATER, PAUSED, INF]),
        "lease": st.sampled_from([b"", LEASE]),
        "failure": st.sampled_from([b"", FAILURE, b"\xff not JSON", b'{"type": "Broken", "message": "x"}']),
        "is_paused": st.booleans(),
        "is_queue_paused": st.booleans(),
        "head_record": st.sampled_from([b"", SOUND.head_record, DELAYED, b"rubbish"]),
        "mark": st.sampled_from(["", "#", "#5", "#6 2-3"]),
    }
)
SIZES = st.sampled_from([(0, 0), (2, 2), (2, 1), (0, 3), (-1, 2), (2, -1)])


@given(FACTS, SIZES, st.sampled_from([Policy(), Policy(reorder_window=6.0), GAP, SKIP]))
def test_any_facts_get_a_sentence(changes: dict[str, Any], sizes: tuple[int, int], policy: Policy) -> None:
    found = SOUND._replace(**changes, order_size=sizes[0], body_size=sizes[1])
    if sizes[0] <= 0:
        found = found._replace(head="", head_record=b"")
    if not policy.sequence:
        found = found._replace(mark="")
    said = explanation("g", found, policy, OPTIONS)
    assert said.text.startswith("group g ")
    assert "\n" not in said.text
    assert said.moves_in_s is None or 0 <= said.moves_in_s < 1e6
    if sizes[0] != sizes[1]:
        assert said.reason == "broken"
