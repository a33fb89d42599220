"""Operations on groups and messages over a net that answers from a list: races between look and act, lost answers."""

from __future__ import annotations

import math
from typing import Any

import orjson
import pytest

from sequencer import Gap
from sequencer.calls import Resumed
from sequencer.calls.net_protocol import Answer
from sequencer.errors import (
    DataError,
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

M1, M2 = facts().head, "1700000000000001m2"
NOW_US = facts().now_us
SEQUENCE = Policy(sequence=True, gap_timeout=60.0)


def failed(member: str = M1) -> dict[str, Any]:
    """A group that is parked on this member."""
    return {"visible_us": math.inf, "failure": encode_failure(Failure("x", "Error", "no", "", 1, 0.0, "h"), member)}


def reply(status: str, score: str = "", record: str = "") -> list[Any]:
    return [[status.encode()], score.encode(), record.encode()]


def session_of(*answers: Any, policy: Policy | None = None, fresh: Policy | None = None) -> Any:
    return ListedSession(ListedNet(*answers), policy=policy, fresh=fresh)


def asked(session: Any) -> list[str]:
    return [words[0] for words in session.net.asked]


# -- resume ----------------------------------------------------------------------------------------------------


def test_a_group_that_a_rule_put_off_which_holds_no_more_is_woken() -> None:
    session = session_of(seen(visible_us=NOW_US + 5e6), b"woken", policy=Policy(reorder_window=9), fresh=Policy())
    assert run(resume(session, "g")) is True
    assert asked(session)[1:] == ["wake"]


def test_a_group_that_changes_meanwhile_is_left_alone() -> None:
    session = session_of(seen(**failed()), reply("changed"))
    with refused(GroupBusy, "group_changed", group=("g",)):
        run(resume(session, "g"))


@pytest.mark.parametrize("status", ["changed", "due", "missing"])
def test_a_resume_whose_answer_is_lost_was_done_by_its_first_try(status: Any) -> None:
    repeated = Answer(Resumed(status, "", b""), is_repeat=True)
    assert run(resume(session_of(seen(**failed()), repeated), "g")) is True


def test_who_holds_a_group_is_named_and_for_how_long() -> None:
    held = {"lease": f"{NOW_US - 75_000_000:016d}1host.example:4711:0000ff".encode(), "visible_us": NOW_US + 5e6}
    for failure in ({}, failed()):
        looks = (seen(**{**failure, **held}), reply("leased"))
        with refused(GroupBusy, "group_busy", owner="host.example:4711:0000ff", held_s=75.0, group=("g",)):
            run(resume(session_of(*looks), "g"))


def test_a_watermark_that_others_wrote_is_an_error_of_ours() -> None:
    with refused(DataError, "foreign_data", server="listed"):
        run(resume(session_of(seen(mark="#x"), fresh=SEQUENCE), "g"))


# -- unskip ----------------------------------------------------------------------------------------------------

LETTER, KEPT = f"{M1[:16]}g\nm1".encode(), b"7\n{}\n" + f"{M1[:16]}0003A[1]".encode()


@pytest.mark.parametrize("answer", [b"+", Answer(["missing"], is_repeat=True)])
def test_the_message_that_was_skipped_last_is_put_back(answer: Any) -> None:
    session = session_of([[LETTER, KEPT]], answer)
    message = run(unskip(session, "g", id="m1"))
    assert (message.id, message.score, message.body) == ("m1", 7.0, 1)
    (*_, (_, _, letters, *_)) = session.net.asked
    assert orjson.loads(letters) == [LETTER.decode(), ""]
    assert session.allowed == ["operate"]


@pytest.mark.parametrize(
    ("answers", "options", "error", "code"),
    [
        ([[[]]], {}, MessageNotFound, "nothing_skipped"),
        ([[[LETTER, KEPT]]], {"id": "m2"}, MessageNotFound, "nothing_skipped"),
        ([[[LETTER, KEPT]]], {"group": "h"}, MessageNotFound, "nothing_skipped"),
        ([[[LETTER, KEPT]], b"-"], {}, MessageNotFound, "nothing_skipped"),
        ([[[LETTER, KEPT]], b"="], {}, IdConflict, "pending_again"),
    ],
)
def test_why_nothing_is_put_back_is_said(answers: Any, options: Any, error: type[SequencerError], code: str) -> None:
    with refused(error, code):
        run(unskip(session_of(*answers), **{"group": "g"} | options))


# -- skip ------------------------------------------------------------------------------------------------------


def test_only_the_message_is_skipped_that_is_named() -> None:
    session = session_of(seen(**failed()), reply("resumed", "7", f"{M1[:16]}0001A[{{}}]"))
    message: Any = run(skip(session, "g", id="m1"))
    assert (message.id, message.score, message.body, message.attempt) == ("m1", 7.0, {}, 2)
    session = session_of(seen(**failed(M2)))
    with refused(NotParked, "other_head", head="m2", id="m1"):
        run(skip(session, "g", id="m1"))
    assert asked(session) == ["inspect"]
    with refused(NotParked, "number_missing", id="m1"):
        run(skip(session_of(seen(mark="#4"), policy=SEQUENCE), "g", id="m1"))
    with refused(NotParked, "number_missing", group=("g",)):
        run(resume(session_of(seen(visible_us=NOW_US + 5e6), policy=Policy(), fresh=SEQUENCE), "g"))


def test_no_other_message_is_skipped_than_the_one_that_was_seen() -> None:
    session = session_of(seen(**failed()), reply("changed"))
    with refused(GroupBusy, "group_changed"):
        run(skip(session, "g"))


@pytest.mark.parametrize("status", ["changed", "due", "missing", "lost"])
def test_whether_a_message_was_skipped_is_unknown_when_the_answer_is_lost(status: Any) -> None:
    lost = ServerUnavailable("gone")
    lost.maybe_sent = True
    answer = lost if status == "lost" else Answer(Resumed(status, "", b""), is_repeat=True)
    with refused(OutcomeUnknown, "skip_unknown", id="m1"):
        run(skip(session_of(seen(**failed()), answer), "g"))
    with pytest.raises(ServerUnavailable):
        run(skip(session_of(seen(**failed()), ServerUnavailable("never sent")), "g"))


def test_the_missing_numbers_of_a_sequence_are_skipped() -> None:
    session = session_of(seen(mark="#4"), b"skipped", policy=SEQUENCE)
    assert run(skip(session, "g")) == Gap(("g",), 5, 6)
    assert session.net.asked[-1][1:5] == ("g", M1, "#4", "#6 5-6")
    with refused(OutcomeUnknown, "outcome_unknown", first=5, last=6):
        run(skip(session_of(seen(mark="#4"), Answer("changed", is_repeat=True), policy=SEQUENCE), "g"))


@pytest.mark.parametrize("status", [b"changed", b"leased"])
def test_no_other_gap_is_skipped_than_the_one_that_was_seen(status: bytes) -> None:
    with refused(GroupBusy, "group_changed"):
        run(skip(session_of(seen(mark="#4"), status, policy=SEQUENCE), "g"))


# -- cancel and reschedule -----------------------------------------------------------------------------------------


RECORD = facts().head_record
THERE = {"member": M1, "score": "7", "record": RECORD}


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


# -- get -------------------------------------------------------------------------------------------------------
