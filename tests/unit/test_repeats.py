"""What is sent again after a failure, and what it may have done: the table of `net.repeats`, row by row."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, cast

import pytest
import redis

from sequencer.calls.call import Call
from sequencer.errors import DataError, QueueFull, ServerNotUsable, ServerUnavailable
from sequencer.net.link import Link
from sequencer.net.repeats import Repeats

from ..support.refused import refused

ASK = Call("inspect", ("k",), ("a",), lambda reply: reply.decode())
TAKE = ASK._replace(script="claim", repeatable=False)
LOST = redis.ConnectionError("reset by peer")
LOADING = redis.BusyLoadingError("LOADING")
NOSCRIPT = redis.exceptions.NoScriptError("NOSCRIPT")


def away(*, maybe_sent: bool = False) -> ServerUnavailable:
    error = ServerUnavailable("it is a replica")
    error.maybe_sent = maybe_sent
    return error


def attempts(calls: Any, error: Any, is_sent: bool) -> tuple[int, type[Exception], bool]:
    """How often it is sent where each attempt fails so; the error in the end, and whether it may have been sent."""
    repeats, count = Repeats(calls), 1
    while (failure := repeats.failed(error, "s", is_sent=is_sent)) is None:
        count += 1
    return count, type(failure), getattr(failure, "maybe_sent", False)


@pytest.mark.parametrize(
    ("what", "error", "is_sent", "repeatable", "other"),
    [
        ("no connection", away(), False, (3, False), (1, False)),
        ("lost", LOST, True, (3, True), (1, True)),
        ("lost by time", redis.TimeoutError("timed out"), True, (3, True), (1, True)),
        ("lost while it connects", LOST, False, (3, False), (1, False)),
        ("loading", LOADING, True, (3, False), (1, False)),
        ("can't for now, nothing ran", away(), True, (3, False), (1, False)),
        ("can't for now, some ran", away(maybe_sent=True), True, (3, True), (1, True)),
    ],
)
def test_the_table_of_repeats(what: str, error: Any, is_sent: bool, repeatable: Any, other: Any) -> None:
    for calls, (count, maybe_sent) in (([ASK, ASK], repeatable), ([ASK, TAKE], other)):
        if isinstance(error, ServerUnavailable):
            error = away(maybe_sent=maybe_sent)
        assert attempts(calls, error, is_sent) == (count, ServerUnavailable, maybe_sent), (what, calls)


@pytest.mark.parametrize(
    ("said", "kind"), [("OOM", QueueFull), ("WRONGTYPE Operation", DataError), ("NOAUTH", ServerNotUsable)]
)
def test_what_another_try_would_not_fix_is_said_at_once(said: str, kind: type[Exception]) -> None:
    assert attempts([ASK], redis.ResponseError(said), True) == (1, kind, False)


def test_one_try_that_may_have_been_carried_out_makes_all_later_ones_repeats() -> None:
    repeats, known = Repeats([ASK]), list[bool]()
    for error in (LOADING, LOST, away()):
        failure = repeats.failed(error, "s", is_sent=error is not LOADING)
        known.append(repeats.maybe_sent)
    assert known == [False, True, True]
    assert isinstance(failure, ServerUnavailable)
    assert failure.maybe_sent


class Wire:
    """A connection that answers what it is given."""

    def __init__(self, answers: list[Any]) -> None:
        self.answers, self.sent = answers, list[list[str]]()

    def connect(self) -> Wire:
        return self

    def disconnect(self) -> None: ...

    def send_command(self, *words: Any, **_: Any) -> None:
        self.sent.append([words[0]])

    def pack_commands(self, commands: Any) -> Any:
        return commands

    def send_packed_command(self, commands: Any, **_: Any) -> None:
        self.sent.append([words[0] for words in commands])

    def read_response(self) -> Any:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def exchanged(
    calls: Any, *answers: Any, total_s: float = math.inf, **options: Any
) -> tuple[list[list[str]], list[Any], int]:
    """What is sent in each round trip where the scripts are known, the values, and how many replicas confirmed it."""
    wire = Wire([*answers])
    link = Link(cast(Any, SimpleNamespace(connect=lambda: wire, name="s", total_s=total_s, attempts=3, cluster=None)))
    link.connection()
    link._known |= {"inspect", "claim"}
    values = link.run(calls, **options)
    assert wire.answers == []
    return wire.sent, values, link.confirmed


def test_a_script_is_sent_in_full_once_on_a_connection() -> None:
    known: set[str] = set()
    assert [ASK.known_command(known) for _ in range(2)] == [ASK.eval_command(), ASK.eval_command(is_known=True)]


@pytest.mark.parametrize("total_s", [math.inf, 0.0])
def test_only_calls_whose_script_was_lost_are_sent_again_and_wait_again(total_s: float) -> None:
    """Also where the time for it was over, as for a process that was paused."""
    answers = (b"a", NOSCRIPT, b"c", 2, b"b", 1)
    sent, values, confirmed = exchanged([ASK, TAKE, ASK], *answers, wait=(2, 100), total_s=total_s)
    assert sent == [["EVALSHA", "EVALSHA", "EVALSHA", "WAIT"], ["EVAL", "WAIT"]]
    assert (values, confirmed) == (["a", "b", "c"], 1)


def test_an_error_of_one_call_says_what_the_others_answered() -> None:
    with pytest.raises(QueueFull) as caught:
        exchanged([ASK, ASK], redis.ResponseError("OOM command not allowed"), b"b")
    assert caught.value.answers == [None, "b"]


@pytest.mark.parametrize(
    ("answers", "maybe_sent"),
    [
        ([redis.ResponseError("READONLY"), redis.ResponseError("READONLY")], False),
        ([b"a", redis.ResponseError("READONLY")], True),
        ([b"a", b"b", redis.ResponseError("WAIT cannot be used with replica instances")], True),
    ],
)
def test_an_answer_that_refuses_says_whether_others_may_have_run(answers: list[Any], maybe_sent: bool) -> None:
    with pytest.raises(ServerUnavailable) as failed:
        exchanged([TAKE, TAKE], *answers, wait=(1, 9) if len(answers) == 3 else None)
    assert failed.value.maybe_sent is maybe_sent


def test_an_answer_that_can_not_be_read_is_foreign_data() -> None:
    with refused(DataError, "foreign_data"):
        exchanged([ASK], [b"a"])


@pytest.mark.parametrize(
    ("errors", "asked", "is_met"),
    [([], 1, True), ([away()], 2, True), ([away(), away()], 2, False), ([DataError("foreign")], 1, False)],
)
def test_what_a_fresh_connection_is_asked_first_is_asked_once_more_where_the_server_was_away(
    errors: list[Any], asked: int, is_met: bool
) -> None:
    made: list[Any] = []
    left = iter(errors)

    class Server:
        name, total_s = "s", math.inf

        def connect(self) -> Any:
            made.append(SimpleNamespace(is_open=True))
            made[-1].disconnect = lambda connection=made[-1]: setattr(connection, "is_open", False)
            return made[-1]

    async def greet(_: Any, *, is_new: bool) -> None:
        if error := next(left, None):
            raise error

    link = Link(cast("Any", Server()), cast("Any", SimpleNamespace(refresh=greet, generation="")))
    if is_met:
        assert link.connection() is made[-1]
    else:
        with pytest.raises(type(errors[-1])):
            link.connection()
    assert [one.is_open for one in made] == [False] * (asked - is_met) + [True] * is_met
