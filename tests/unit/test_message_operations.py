"""get, cancel and reschedule over a net that answers from a list."""

from __future__ import annotations

import math
from typing import Any

import pytest

from sequencer.calls.net_protocol import Answer
from sequencer.errors import DataError, InvalidScore, InvalidTime, MessageBusy, MessageNotFound, OutcomeUnknown
from sequencer.queue.history.known import get
from sequencer.queue.operate import cancel, reschedule
from sequencer.settings.policy import Policy
from sequencer.store.failure import encode_failure
from sequencer.values.message import Failure

from ..support.listed_net import ListedNet, ListedSession, facts, run, seen
from ..support.refused import refused

M1, RECORD = facts().head, facts().head_record
THERE = {"member": M1, "score": "7", "record": RECORD}


def session_of(*answers: Any, policy: Policy | None = None) -> Any:
    return ListedSession(ListedNet(*answers), policy=policy)


# -- cancel and reschedule -------------------------------------------------------------------------------------


def test_a_message_is_cancelled() -> None:
    session = session_of(seen(**THERE), b"done")
    run(cancel(session, "g", "m1"))
    assert session.net.asked[-1][1:5] == ("g", "m1", "", "")
    assert session.allowed == ["operate"]


def test_what_is_not_there_is_not_touched() -> None:
    session = session_of(seen())
    with refused(MessageNotFound, "not_pending", id="m9", group=("g",), queue="q"):
        run(cancel(session, "g", "m9"))
    assert len(session.net.asked) == 1


@pytest.mark.parametrize(("status", "error"), [(b"missing", MessageNotFound), (b"leased", MessageBusy)])
@pytest.mark.parametrize("operation", [cancel, lambda *given: reschedule(*given, delay=5)])
def test_a_message_that_goes_or_is_taken_behind_the_look_is_said_to(
    operation: Any, status: bytes, error: type[Exception]
) -> None:
    with pytest.raises(error, match="m1"):
        run(operation(session_of(seen(**THERE), status), "g", "m1"))


def test_a_cancel_whose_answer_is_lost_is_done() -> None:
    run(cancel(session_of(seen(**THERE), Answer("missing", is_repeat=True)), "g", "m1"))
    with pytest.raises(MessageBusy):
        run(cancel(session_of(seen(**THERE), Answer("leased", is_repeat=True)), "g", "m1"))


@pytest.mark.parametrize("status", ["missing", "leased"])
def test_a_reschedule_whose_answer_is_lost_is_unknown_where_a_repeat_finds_another_state(status: str) -> None:
    """The first attempt may have made the message due, and a consumer may have it or have handled it since."""
    session = session_of(seen(**THERE), Answer(status, is_repeat=True))
    with refused(OutcomeUnknown, "outcome_unknown"):
        run(reschedule(session, "g", "m1", delay=0))


@pytest.mark.parametrize(
    ("options", "words"), [({"delay": 5}, ("due", "+")), ({"at": 9, "score": 3}, ("3.0", "9000000"))]
)
def test_a_new_time_keeps_the_score_unless_one_is_given(options: dict[str, Any], words: tuple[str, str]) -> None:
    session = session_of(seen(**THERE), b"done")
    run(reschedule(session, "g", "m1", **options))
    score, due = session.net.asked[-1][3:5]
    assert (score, due.startswith(words[1])) == (words[0], True)


@pytest.mark.parametrize(
    ("options", "error"), [({}, InvalidTime), ({"delay": -1}, InvalidTime), ({"delay": 1, "score": 3}, InvalidScore)]
)
def test_what_breaks_a_rule_is_said_before_anything_is_asked(options: dict[str, Any], error: type[Exception]) -> None:
    session = session_of(policy=Policy(sequence=True))
    with pytest.raises(error):
        run(reschedule(session, "g", "m1", **options))
    assert not session.net.asked


# -- get -------------------------------------------------------------------------------------------------------


def test_a_pending_message_is_shown_with_its_state_and_its_failure() -> None:
    failure = encode_failure(Failure("m1", "Error", "no", "", 1, 0.0, "h"), M1)
    session = session_of(seen(**THERE, failure=failure, visible_us=math.inf))
    info: Any = run(get(session, "g", "m1"))
    assert (info.id, info.group, info.state, info.due_in_s, info.attempts) == ("m1", ("g",), "parked", None, 0)
    assert (info.error.type, info.message.body) == ("Error", 1)


def test_the_failure_of_the_head_is_not_shown_for_another() -> None:
    failure = encode_failure(Failure("m0", "Error", "no", "", 1, 0.0, "h"), "1700000000000000m0")
    info: Any = run(get(session_of(seen(**THERE, failure=failure)), "g", "m1"))
    assert info.error is None


def test_a_message_that_is_not_pending_is_looked_for_among_the_dead() -> None:
    name = f"{M1[:16]}g\nm1".encode()
    failure = encode_failure(Failure("m1", "Error", "no", "", 3, 0.0, "h"), "")
    session = session_of(seen(), [[name, b"5", name + b"x", b"6"]], [[b"7\n" + failure + b"\n" + RECORD]])
    info: Any = run(get(session, "g", "m1"))
    assert (info.state, info.error.type, info.message.body) == ("dead", "Error", 1)


@pytest.mark.parametrize("is_handled", [True, False])
def test_of_a_message_that_is_gone_no_more_is_known_than_that(is_handled: bool) -> None:
    info = run(get(session_of(seen(is_handled=is_handled), [[]]), "g", "m1"))
    assert (info.state if info else None) == ("handled" if is_handled else None)


def test_a_watermark_that_others_wrote_is_an_error_of_ours() -> None:
    with pytest.raises(DataError, match="server listed holds what no client of ours wrote"):
        run(get(session_of(seen(**THERE, mark="#x")), "g", "m1"))
