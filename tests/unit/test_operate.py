"""Operations on groups and messages over a net that answers from a list: races between look and act, lost answers."""

from __future__ import annotations

import math
from typing import Any

import pytest

from sequencer.calls.net_protocol import Answer
from sequencer.errors import (
    GroupBusy,
    IdConflict,
    MessageBusy,
    MessageNotFound,
    NotParked,
    OutcomeUnknown,
    SequencerError,
    ServerUnavailable,
)
from sequencer.queue.groups.head import resume, skip, unskip
from sequencer.queue.operate import cancel, reschedule
from sequencer.settings.policy import Policy
from sequencer.store.failure import encode_failure
from sequencer.values.message import Failure

from ..support.listed_net import ListedNet, ListedSession, facts, run, seen
from ..support.refused import refused

M1 = facts().head
NOW_US = facts().now_us
SEQUENCE = Policy(sequence=True, gap_timeout=60.0)


FAILED = {"visible_us": math.inf, "failure": encode_failure(Failure("x", "Error", "no", "", 1, 0.0, "h"), M1)}
"""A group that is parked on its head."""


def session_of(*answers: Any, policy: Policy | None = None, fresh: Policy | None = None) -> Any:
    return ListedSession(ListedNet(*answers), policy=policy, fresh=fresh)


def test_a_group_that_a_rule_put_off_which_holds_no_more_is_woken() -> None:
    session = session_of(seen(visible_us=NOW_US + 5e6), b"woken", policy=Policy(reorder_window=9), fresh=Policy())
    assert run(resume(session, "g")) is True
    assert [words[0] for words in session.net.asked] == ["inspect", "wake"]


@pytest.mark.parametrize("operation", [resume, skip])
def test_a_group_that_changes_meanwhile_is_left_alone(operation: Any) -> None:
    session = session_of(seen(**FAILED), [[b"changed"], b"", b""])
    with refused(GroupBusy, "group_changed", group=("g",)):
        run(operation(session, "g"))


def test_no_skipped_message_is_put_back_beside_one_with_its_id() -> None:
    letter, kept = f"{M1[:16]}g\nm1".encode(), f"7\n{{}}\n{M1[:16]}0003A[1]".encode()
    with refused(IdConflict, "pending_again"):
        run(unskip(session_of([[letter, kept]], b"="), "g"))


def test_whether_a_message_was_skipped_is_unknown_only_where_that_may_have_been_sent() -> None:
    lost = ServerUnavailable("gone")
    lost.maybe_sent = True
    with refused(OutcomeUnknown, "skip_unknown", id="m1"):
        run(skip(session_of(seen(**FAILED), lost), "g"))
    with pytest.raises(ServerUnavailable):
        run(skip(session_of(seen(**FAILED), ServerUnavailable("never sent")), "g"))


def test_missing_numbers_are_no_message_that_could_be_named() -> None:
    with refused(NotParked, "number_missing", id="m1"):
        run(skip(session_of(seen(mark="#4"), policy=SEQUENCE), "g", id="m1"))


@pytest.mark.parametrize("status", [b"changed", b"leased"])
def test_no_other_gap_is_skipped_than_the_one_that_was_seen(status: bytes) -> None:
    with refused(GroupBusy, "group_changed"):
        run(skip(session_of(seen(mark="#4"), status, policy=SEQUENCE), "g"))


THERE = {"member": M1, "score": "7", "record": facts().head_record}


@pytest.mark.parametrize(("status", "error"), [(b"missing", MessageNotFound), (b"leased", MessageBusy)])
@pytest.mark.parametrize("operation", [cancel, lambda *given: reschedule(*given, delay=5)])
def test_a_message_that_goes_or_is_taken_behind_the_look_is_said_to(
    operation: Any, status: bytes, error: type[SequencerError]
) -> None:
    with pytest.raises(error) as caught:
        run(operation(session_of(seen(**THERE), status), "g", "m1"))
    assert caught.value.id == "m1"


@pytest.mark.parametrize("status", ["missing", "leased"])
def test_a_reschedule_whose_answer_is_lost_is_unknown_where_a_repeat_finds_another_state(status: str) -> None:
    """The first attempt may have made the message due, and a consumer may have it or have handled it since."""
    session = session_of(seen(**THERE), Answer(status, is_repeat=True))
    with refused(OutcomeUnknown, "outcome_unknown", id="m1"):
        run(reschedule(session, "g", "m1", delay=0))
