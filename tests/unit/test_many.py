"""Operations on many groups, over a net that answers from a list: which are chosen, and at which rate."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sequencer.errors import ConfigurationError
from sequencer.queue.dead_letters.listed import count_dead, dead
from sequencer.queue.dead_letters.redrive import purge, redrive
from sequencer.queue.groups.many import resume_many, skip_many
from sequencer.store.failure import digest_of, encode_failure
from sequencer.values.message import Failure

from ..support.listed_net import ListedNet, ListedSession, run
from ..support.refused import refused

TIME = [b"1700000000", b"0"]
MEMBER = "1700000000000000m1"


def failure(error: str = "ValueError", at: float = 0.0) -> bytes:
    return encode_failure(Failure("m1", error, "no stock", "", 1, at, "h"), MEMBER)


def shard(*failures: bytes | None) -> list[Any]:
    """The answers to the reading of a shard in which so many groups are parked, g0, g1 ..."""
    names = [f"g{n}".encode() for n in range(len(failures))]
    page = [word for name in names for word in (name, b"inf")]
    return [[TIME], [0, len(names), None], [page], *([[list(failures)]] if names else [])]


def session_of(*answers: Any) -> Any:
    return ListedSession(ListedNet(*answers, now=50.0))


def sent(session: Any) -> list[list[Any]]:
    """The groups of each call."""
    return [orjson.loads(words[1]) for words in session.net.asked if words[0] == "resume"]


def went(count: int) -> list[Any]:
    """The answer to `resume`, where this number of groups goes on."""
    return [[b"resumed"] * count, b"", b""]


def test_those_are_chosen_whose_failure_fits() -> None:
    old, new = failure(at=1_699_999_000.0), failure("KeyError", at=1_699_999_990.0)
    for choice, groups in (
        ({"error": "KeyError"}, ["g1"]),
        ({"error": "*: no st?ck"}, ["g0", "g1"]),
        ({"since": 60}, ["g1"]),
        ({"since": timedelta(hours=1)}, ["g0", "g1"]),
        ({"since": 3600, "error": "Value*"}, ["g0"]),
    ):
        session = session_of(*shard(old, new, None), went(len(groups)))
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
    session = session_of(*shard(*[failure()] * 50), went(20), went(20), went(10))
    run(resume_many(session, everything=True, rate=200, on_progress=lambda *numbers: told.append(numbers)))
    assert [words for words in session.net.asked if words[0] == "sleep"] == [("sleep", pytest.approx(0.1))] * 2
    assert told == [(20, 50), (40, 50), (50, 50)]


@given(st.text(max_size=900), st.floats(1e9, 2e9), st.text("abc.-", max_size=250))
def test_a_failure_at_another_time_has_another_digest(traceback: str, at: float, owner: str) -> None:
    one, other = (encode_failure(Failure("m", "E", "no", traceback, 1, when, owner), "m") for when in (at, at + 1e-4))
    assert digest_of(one) != digest_of(other)
    assert len(digest_of(one).encode("utf-8", "surrogateescape")) < 410
