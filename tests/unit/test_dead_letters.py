"""Operations on dead letters, over a net that answers from a list: pages, rates, and answers that were lost."""

from __future__ import annotations

from typing import Any

import pytest

from sequencer.calls.net_protocol import Answer
from sequencer.errors import ConfigurationError, DataError, MessageNotFound
from sequencer.queue.dead_letters import listed
from sequencer.queue.dead_letters.listed import DeadLetterFilter, count_dead, dead
from sequencer.queue.dead_letters.redrive import purge, redrive
from sequencer.store.failure import encode_failure
from sequencer.values.message import Failure

from ..support.listed_net import ListedNet, ListedSession, run
from ..support.refused import refused

STAMP = "1700000000000000"


def name(id: str, group: str = "g") -> str:
    return f"{STAMP}{group}\n{id}"


def kept(score: float = 7, error: str = "ValueError") -> bytes:
    failure = encode_failure(Failure("x", error, "no stock", "", 1, 0.0, "host"), "")
    return b"%g\n%b\n%b0001A[1]" % (score, failure, STAMP.encode())


def names(*ids: str) -> list[bytes]:
    return [word for n, id in enumerate(ids) for word in (name(id).encode(), str(n * 1e6).encode())]


def session_of(*answers: Any, shards: int = 1) -> Any:
    return ListedSession(ListedNet(*answers, now=50.0), shards=shards)


def test_they_are_read_by_pages_and_shards_and_shown_by_their_deaths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listed, "NAMES_PAGE", 2)
    monkeypatch.setattr(listed, "PAGE", 2)
    one = [[names("a", "b")], [names("c")], [[kept(), None]], [[kept()]]]  # b went while they were read
    two = [[[name("z").encode(), b"500000"]], [[kept()]]]
    session = session_of(*one, *two, shards=2)
    assert [(letter.message.id, letter.died_at) for letter in run(dead(session, limit=9))] == [
        ("a", 0.0),
        ("c", 0.0),
        ("z", 0.5),
    ]
    assert [words[2:4] for words in session.net.asked if words[0] == "ZRANGE"] == [(0, 1), (2, 3), (0, 1)]
    assert [len(words) - 2 for words in session.net.asked if words[0] == "HMGET"] == [2, 1, 1]
    assert not session.net.answers


def test_only_so_many_are_shown() -> None:
    session = session_of([names("a", "b", "c")], [[kept()] * 3])
    assert [letter.message.id for letter in run(dead(session, limit=2))] == ["a", "b"]


@pytest.mark.parametrize(
    ("error", "count"), [("ValueError", 1), ("Value*", 1), ("KeyError: no*", 1), ("no stock", 0), ("*no st?ck", 2)]
)
def test_an_error_is_a_type_or_a_pattern_for_type_and_message(error: str, count: int) -> None:
    session = session_of([names("a", "b")], [[kept(), kept(error="KeyError")]])
    assert run(count_dead(session, error=error)) == count


def test_without_an_error_they_are_counted_by_their_names() -> None:
    session = session_of([names("a", "b")], [names("c")], shards=2)
    assert run(count_dead(session, "g")) == 3
    assert {words[0] for words in session.net.asked} == {"ZRANGE"}


def test_all_of_them_are_counted_by_one_command_a_shard() -> None:
    session = session_of([7], [10**6], shards=2)
    assert run(count_dead(session)) == 10**6 + 7
    assert [words[0] for words in session.net.asked] == ["ZCARD", "ZCARD"]


def test_a_name_is_chosen_by_group_and_id() -> None:
    wanted = DeadLetterFilter.of(["a", 1], 7, None)
    assert wanted[:] == ("a:1", "7", None)
    assert [wanted.fits_name(name(*words)) for words in (("7", "a:1"), ("8", "a:1"), ("7", "a:2"))] == [
        True,
        False,
        False,
    ]


def test_what_others_wrote_is_an_error_of_ours() -> None:
    with pytest.raises(DataError, match="server listed holds what no client of ours wrote"):
        run(dead(session_of([names("a")[:1]])))


@pytest.mark.parametrize(
    ("operation", "options", "words"),
    [
        (redrive, {}, "redrive: give group, id or error to choose some"),
        (purge, {"group": "g", "everything": True}, "purge: give group, id or error"),
        (redrive, {"error": 7, "id": "x"}, "error=7 must be text"),
        (redrive, {"everything": True, "rate": float("nan")}, "rate=nan must be"),
        (dead, {"limit": 0}, "limit=0 must be"),
        (dead, {"error": b"x"}, "error=b'x' must be text"),
        (count_dead, {"error": 7}, "error=7 must be text"),
    ],
)
def test_a_wrong_choice_asks_nothing_of_the_server(operation: Any, options: dict[str, Any], words: str) -> None:
    session = session_of()
    with pytest.raises(ConfigurationError, match=words):
        run(operation(session, **options))
    assert (session.net.asked, session.allowed) == ([], [])


def test_the_first_of_a_group_goes_back_first_and_parked_groups_are_named() -> None:
    session = session_of([names("a", "b", "c")], [[kept(3), kept(1), kept(2)]], b"+=+", [b"inf"])
    done = run(redrive(session, everything=True))
    assert (done.redriven, done.pending, done.parked) == (2, 1, [("g",)])
    ((_, _, letters, _, _),) = [words for words in session.net.asked if words[0] == "redrive"]
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


def test_no_more_than_the_rate_go_back_in_a_second() -> None:
    """A page is a tenth of a second's worth; the first one leaves at once."""
    ids = [f"m{n}" for n in range(50)]
    session = session_of([names(*ids)], [[kept()] * 50], b"+" * 20, b"+" * 20, b"+" * 10, [b"1"])
    assert run(redrive(session, everything=True, rate=200)).redriven == 50
    assert [words for words in session.net.asked if words[0] == "sleep"] == [
        ("sleep", pytest.approx(0.1)),
        ("sleep", pytest.approx(0.1)),
    ]


def test_a_slow_server_is_not_slowed_further() -> None:
    ids = [f"m{n}" for n in range(40)]
    session = session_of([names(*ids)], [[kept()] * 40])

    def late(_: Any) -> bytes:
        session.net.time += 1.0
        return b"+" * 20

    session.net.answers += [late, late, [b"1"]]
    run(redrive(session, everything=True, rate=200))
    assert not [words for words in session.net.asked if words[0] == "sleep"]


def test_a_purge_counts_what_was_there() -> None:
    session = session_of([names("a", "b")], [[kept(), kept()]], 1)
    assert run(purge(session, everything=True)) == 1
    assert session.allowed == ["operate"]
    with refused(MessageNotFound, "dead_letter_not_found", id="a"):
        run(purge(session_of([names("a")], [[kept()]], 0), id="a"))
