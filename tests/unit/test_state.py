"""The state of a group by three who are asked: where they agree, and where each says something else on purpose."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sequencer.calls.examine import GroupFacts
from sequencer.queue.explain import explanation
from sequencer.queue.state import group_state, is_leased, message_state
from sequencer.settings.options import QueueOptions
from sequencer.settings.policy import Policy
from sequencer.store.failure import encode_failure
from sequencer.store.keys import PAUSED
from sequencer.values.message import Failure

NOW, INF = 1_700_000_100_000_000, math.inf
PAST, LATER = NOW - 2_000_000.0, NOW + 5_000_000.0
STAMP = "1700000097000000"
MEMBER = f"{STAMP}m1"
RECORD = f"{STAMP}00000[1]".encode()
LEASE = b"1700000098000000" + b"1host-7"
FAILURE = encode_failure(Failure("m1", "ValueError", "no", "", 3, 0.0, "host-7"), MEMBER)


def facts(
    visible: float, lease: bytes = b"", *, failure: bytes = b"", paused: bool = False, queue_paused: bool = False
) -> GroupFacts:
    """Of a group with two messages, and of its head."""
    flags = (paused, queue_paused)
    return GroupFacts(NOW, visible, lease, failure, *flags, 2, 2, MEMBER, "7", RECORD, "", MEMBER, "7", RECORD, False)


def said(seen: GroupFacts) -> tuple[str, str, str]:
    """The state of the group, the reason in its explanation, the state of its head."""
    assert seen.visible_us is not None
    state = group_state(seen.visible_us, seen.lease, seen.now_us, is_paused=seen.is_paused)
    return state, explanation("g", seen, Policy(), QueueOptions(queue="q")).reason, message_state(seen)[0]


ONE = [
    (facts(PAST), ("due", "due", "due")),
    (facts(PAST, LEASE), ("due", "due", "due")),
    (facts(LATER, LEASE), ("leased", "leased", "leased")),
    (facts(LATER, failure=FAILURE), ("waiting", "backoff", "waiting")),
    (facts(INF, failure=FAILURE), ("parked", "parked", "parked")),
    (facts(PAST, paused=True), ("paused", "paused", "paused")),
    (facts(PAUSED, paused=True), ("paused", "paused", "paused")),
]
TWO = [
    (facts(INF, failure=FAILURE, paused=True), ("paused", "paused", "parked")),
    (facts(INF, failure=FAILURE, queue_paused=True), ("parked", "queue paused", "parked")),
    (facts(PAST, queue_paused=True), ("due", "queue paused", "paused")),
    (facts(LATER, LEASE, paused=True), ("leased", "leased", "leased")),
    (facts(LATER, LEASE, queue_paused=True), ("leased", "leased", "leased")),
    (facts(LATER), ("waiting", "due", "waiting")),
]
"""Parked and paused, deferred by no rule: each says one of the two."""


@pytest.mark.parametrize(("seen", "states"), ONE + TWO)
def test_a_group_that_is_one_thing_has_one_state_for_all(seen: GroupFacts, states: tuple[str, str, str]) -> None:
    assert said(seen) == states


@pytest.mark.parametrize(
    ("changes", "state", "own_us"),
    [
        ({}, "due", NOW),
        ({"member": f"{STAMP}m2"}, "behind", NOW),
        ({"record": f"{STAMP}0000D{NOW + 9}[1]".encode()}, "delayed", NOW + 9),
        ({"record": f"{STAMP}0000D{NOW - 9}[1]".encode()}, "due", NOW - 9),
        ({"visible_us": LATER, "lease": LEASE}, "leased", NOW),
        ({"visible_us": LATER, "lease": LEASE, "member": f"{STAMP}m2"}, "behind", NOW),
        ({"visible_us": LATER, "lease": LEASE, "member": "1700000099000000m1"}, "behind", NOW),
        ({"visible_us": LATER, "lease": b"foreign"}, "behind", NOW),
        ({"visible_us": LATER}, "waiting", LATER),
        ({"visible_us": None}, "due", NOW),
        ({"visible_us": PAUSED}, "paused", None),
        ({"visible_us": INF}, "parked", None),
    ],
)
def test_a_message_has_a_state_and_a_time_of_its_own(
    changes: dict[str, object], state: str, own_us: float | None
) -> None:
    seen = facts(PAST)._replace(**changes)  # type: ignore[arg-type]
    if seen.member == "1700000099000000m1":  # it came before the head, after that was claimed
        seen = seen._replace(head=seen.member)
    assert message_state(seen) == (state, own_us)


@given(
    visible=st.sampled_from([0.0, PAST, LATER, PAUSED, INF]),
    lease=st.sampled_from([b"", LEASE]),
    paused=st.booleans(),
    queue_paused=st.booleans(),
)
def test_a_lease_that_has_not_run_out_is_seen_by_all(
    visible: float, lease: bytes, paused: bool, queue_paused: bool
) -> None:
    seen = facts(visible, lease, failure=FAILURE, paused=paused, queue_paused=queue_paused)
    group, reason, _ = said(seen)
    is_broken = reason == "broken"
    assert (group == "leased") is is_leased(visible, lease, NOW)
    assert is_broken or (reason == "leased") is is_leased(visible, lease, NOW)


def test_a_group_before_all_time_is_due_as_a_claim_takes_it() -> None:
    assert group_state(-INF, None, NOW) == "due"  # others wrote it
