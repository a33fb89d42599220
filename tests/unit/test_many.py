"""Operations on many groups and on dead letters, over a net that answers from a list: pages, rates, lost answers."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sequencer.calls.net_protocol import Answer
from sequencer.errors import ConfigurationError, DataError, MessageNotFound
from sequencer.queue.dead_letters.listed import count_dead, dead
from sequencer.queue.dead_letters.redrive import purge, redrive
from sequencer.queue.groups.many import resume_many, skip_many
from sequencer.settings.policy import Policy
from sequencer.store.failure import digest_of, encode_failure
from sequencer.values.message import Failure

from ..support.listed_net import ListedNet, ListedSession, run
from ..support.refused import refused

TIME = [b"1700000000", b"0"]
MEMBER = "1700000000000000m1"


def failure(error: str = "ValueError", at: float = 0.0, member: str = MEMBER) -> bytes:
    return encode_failure(Failure("m1", error, "no stock", "", 1, at, "h"), member)


def shard(*failures: bytes | None) -> list[Any]:
    """The answers to the reading of a shard in which so many groups are parked, g0, g1 ..."""
    names = [f"g{n}".encode() for n in range(len(failures))]
    page = [word for name in names for word in (name, b"inf")]
    return [[TIME], [0, len(names), None], [page], *([[list(failures)]] if names else [])]


def session_of(*answers: Any, shards: int = 1, policy: Policy | None = None) -> Any:
    return ListedSession(ListedNet(*answers, now=50.0), shards=shards, policy=policy)


def sent(session: Any) -> list[list[Any]]:
    """The groups of each call."""
    return [orjson.loads(words[1]) for words in session.net.asked if words[0] == "resume"]


def went(marks: str) -> list[Any]:
    """The answer to `resume`: a group that went on, one that changed, or one that was not parked any more."""
    names = {"+": b"resumed", "!": b"changed", "-": b"gone"}
    return [[names[mark] for mark in marks], b"", b""]


def test_those_are_chosen_whose_failure_fits() -> None:
    old, new = failure(at=1_699_999_000.0), failure("KeyError", at=1_699_999_990.0)
    for choice, groups in (
        ({"error": "KeyError"}, ["g1"]),
        ({"error": "*: no st?ck"}, ["g0", "g1"]),
        ({"since": 60}, ["g1"]),
        ({"since": timedelta(hours=1)}, ["g0", "g1"]),
        ({"since": 3600, "error": "Value*"}, ["g0"]),
    ):
        session = session_of(*shard(old, new, None), went("+" * len(groups)))
        done = run(resume_many(session, **choice))
        assert [one[0] for one in sent(session)[0]] == groups
        assert (done.done, done.waiting) == (len(groups), 0), "only where all are meant, those at a gap are counted"
        others = {error: 1 for group, error in (("g0", "ValueError"), ("g1", "KeyError")) if group not in groups}
        assert done.others == others


@pytest.mark.parametrize(
    ("operation", "options", "code"),
    [
        (resume_many, {}, "nothing_chosen"),
        (skip_many, {"error": "x", "everything": True}, "nothing_chosen"),
        (resume_many, {"error": 7}, "error_pattern_invalid"),
        (resume_many, {"since": "10x"}, "duration_invalid"),
        (skip_many, {"everything": True, "rate": math.nan}, "rate_invalid"),
        (redrive, {}, "nothing_chosen"),
        (purge, {"group": "g", "everything": True}, "nothing_chosen"),
        *((redrive, {"error": "*", "rate": rate}, "rate_invalid") for rate in ("x", 0, -1, True, None, 10**30)),
        (dead, {"limit": 0}, "not_whole"),
        *((count_dead, {"error": error}, "error_pattern_invalid") for error in (7, b"x", ["x"], ValueError)),
    ],
)
def test_a_wrong_choice_asks_nothing_of_the_server(operation: Any, options: dict[str, Any], code: str) -> None:
    session = session_of()
    with refused(ConfigurationError, code):
        run(operation(session, **options))
    assert (session.net.asked, session.allowed) == ([], [])


def test_no_more_than_the_rate_go_on_in_a_second_and_progress_is_told() -> None:
    """A page is a tenth of a second's worth; the first one leaves at once."""
    told: list[tuple[int, int]] = []
    session = session_of(*shard(*[failure()] * 50), went("+" * 20), went("+" * 20), went("+" * 10))
    run(resume_many(session, everything=True, rate=200, on_progress=lambda *numbers: told.append(numbers)))
    assert [words for words in session.net.asked if words[0] == "sleep"] == [("sleep", pytest.approx(0.1))] * 2
    assert told == [(20, 50), (40, 50), (50, 50)]


def test_after_a_lost_answer_a_group_that_is_not_parked_went_with_the_first_try() -> None:
    session = session_of(*shard(failure(), failure()), Answer(["gone", "changed"], is_repeat=True))
    done = run(resume_many(session, everything=True))
    assert (done.done, done.changed) == (1, 1), "which failed again"
    session = session_of(*shard(failure()), went("-"))
    assert run(resume_many(session, everything=True)).changed == 1, "somebody else let it go on"


def test_what_others_wrote_is_an_error_of_ours() -> None:
    with refused(DataError, "foreign_data", server="listed"):
        run(resume_many(session_of([TIME], [0, 1, None], [[b"g"]]), everything=True))


@given(st.text(max_size=900), st.floats(1e9, 2e9), st.text("abc.-", max_size=250))
def test_a_failure_at_another_time_has_another_digest(traceback: str, at: float, owner: str) -> None:
    one, other = (encode_failure(Failure("m", "E", "no", traceback, 1, when, owner), "m") for when in (at, at + 1e-4))
    assert digest_of(one) != digest_of(other)
    assert len(digest_of(one).encode("utf-8", "surrogateescape")) < 410


# -- dead letters --------------------------------------------------------------------------------------------------


STAMP = "1700000000000000"


def name(id: str, group: str = "g") -> str:
    return f"{STAMP}{group}\n{id}"


def kept(score: float = 7, error: str = "ValueError") -> bytes:
    failure = encode_failure(Failure("x", error, "no stock", "", 1, 0.0, "host"), "")
    return b"%g\n%b\n%b0001A[1]" % (score, failure, STAMP.encode())


def names(*ids: str) -> list[bytes]:
    return [word for n, id in enumerate(ids) for word in (name(id).encode(), str(n * 1e6).encode())]


@pytest.mark.parametrize(
    ("error", "count"), [("ValueError", 1), ("Value*", 1), ("KeyError: no*", 1), ("no stock", 0), ("*no st?ck", 2)]
)
def test_an_error_is_a_type_or_a_pattern_for_type_and_message(error: str, count: int) -> None:
    session = session_of([names("a", "b")], [[kept(), kept(error="KeyError")]])
    assert run(count_dead(session, error=error)) == count


def test_the_first_of_a_group_goes_back_first_and_parked_groups_are_named() -> None:
    session = session_of([names("a", "b", "c")], [[kept(3), kept(1), kept(2)]], b"+=+", [b"inf"])
    done = run(redrive(session, everything=True))
    assert (done.redriven, done.pending, done.parked) == (2, 1, [("g",)])
    ((_, _, letters, *_),) = [words for words in session.net.asked if words[0] == "redrive"]
    assert [letters.index(b"\\n" + id) for id in (b"b", b"c", b"a")] == sorted(
        letters.index(b"\\n" + id) for id in (b"a", b"b", b"c")
    )
    assert session.allowed == ["operate"]


def test_after_a_lost_answer_a_letter_that_is_gone_went_with_the_first_try() -> None:
    session = session_of([names("a", "b")], [[kept(), kept()]], Answer(["missing", "pending"], is_repeat=True), [b"1"])
    done = run(redrive(session, everything=True))
    assert (done.redriven, done.pending, done.parked) == (1, 1, [])


def test_a_letter_that_another_put_back_meanwhile_does_not_count() -> None:
    session = session_of([names("a", "b")], [[kept(), kept()]], b"-+", [b"1"])
    assert run(redrive(session, everything=True)).redriven == 1
    session = session_of([names("a")], [[kept()]], b"-")
    with refused(MessageNotFound, "dead_letter_not_found", id="a", queue="q"):
        run(redrive(session, id="a"))


def test_a_purge_counts_what_was_there() -> None:
    session = session_of([names("a", "b")], [[kept(), kept()]], 1)
    assert run(purge(session, everything=True)) == 1
    assert session.allowed == ["operate"]
    with refused(MessageNotFound, "dead_letter_not_found", id="a"):
        run(purge(session_of([names("a")], [[kept()]], 0), id="a"))
