"""What an outage is, and what a consumer does about one, without a server."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sequencer import Message, Park, Retry, SetAside
from sequencer.calls.outage import Waits
from sequencer.drain.outcome import Decision, decide, failed_with
from sequencer.errors import ConfigurationError, HandlerTimeout, LeaseExpired, Outage, TooLate, Undecodable, WrongSignal
from sequencer.settings.error_names import is_named
from sequencer.settings.options import QueueOptions, queue_options
from sequencer.testing import MemoryQueue

from ..support.refused import refused

PLAIN = QueueOptions(queue="q", max_attempts=3, backoff_s=1.0, backoff_cap_s=8.0)


class BankClosed(ConnectionError):
    """An error of a user's own."""


# -- which errors are one --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [ConnectionError(), ConnectionRefusedError(), BankClosed(), TimeoutError(), Outage()])
def test_an_outage_is_to_wait_and_to_count_only_if_the_server_says_so(error: BaseException) -> None:
    assert decide(PLAIN, 1, error, 0.0) == Decision(0.5, outage=Waits(0.5, 4.0))
    assert decide(PLAIN, 3, error, 0.0) == Decision(None, "park", Waits(0.5, 4.0))


@pytest.mark.parametrize(
    "error",
    [OSError(), ValueError(), HandlerTimeout(), Retry(), LeaseExpired(), Undecodable(), TooLate(on_late="drop")],
)
def test_another_error_is_none(error: BaseException) -> None:
    assert decide(PLAIN, 1, error, 0.0).outage is None


def test_a_handler_may_say_when_it_is_tried_again() -> None:
    assert decide(PLAIN, 1, Outage("why", after=30), 0.0).outage == Waits(30, 30, 30)
    wrong: list[Any] = [-1, float("nan"), float("inf"), "5x", True]
    for after in wrong:
        with refused(WrongSignal, "duration_invalid", name="after"):
            Outage(after=after)
    seconds: Any = 5
    with refused(WrongSignal, "reason_invalid", name="Outage", value=5):
        Outage(seconds)


def test_what_a_handler_says_comes_first_then_what_parks_then_an_outage_then_attempts() -> None:
    class Both(SetAside, ConnectionError):
        """A signal that is also an outage."""

    options = queue_options("q", "n", {"park_on": [BankClosed], "dead_letter_on": ["ConnectionResetError", "Outage"]})
    assert decide(options, 1, Both(), 0.0) == Decision(None, "dead")
    assert decide(options, 1, Park("x"), 0.0) == Decision(None, "park")
    assert decide(options, 1, BankClosed(), 0.0) == Decision(None, "park")
    assert decide(options, 1, ConnectionResetError(), 0.0) == Decision(None, "dead")
    assert decide(options, 1, Outage(), 0.0).outage, "a signal of the handler, though it is named"
    assert decide(options, 9, ConnectionAbortedError(), 0.0).outage


KINDS: list[type[BaseException]] = [ConnectionError, BankClosed, TimeoutError, ValueError, KeyError]
LISTS = ("park_on", "dead_letter_on", "outage")


@given(st.dictionaries(st.sampled_from(KINDS), st.sampled_from(LISTS)), st.sampled_from(KINDS), st.integers(1, 9))
def test_of_the_lists_the_first_that_names_it_decides(
    named: dict[type[BaseException], str], kind: type[BaseException], attempt: int
) -> None:
    settings: dict[str, Any] = {name: [one for one, of in named.items() if of == name] for name in LISTS}
    options = queue_options("q", "n", settings)
    fits = [name for name in LISTS if any(issubclass(kind, one) for one in settings[name])]
    done = decide(options, attempt, kind(), 0.0)
    assert (done.outage is not None) == (fits[:1] == ["outage"])
    if fits[:1] in (["park_on"], ["dead_letter_on"]):
        assert done == Decision(None, "park" if fits[0] == "park_on" else "dead")


def test_a_name_stands_in_one_list_and_the_default_gives_way() -> None:
    for one, other in itertools.permutations(LISTS, 2):
        with refused(ConfigurationError, "listed_twice", name="TimeoutError"):
            queue_options("q", "n", {one: [TimeoutError], other: ["TimeoutError"]})
    options = queue_options("q", "n", {"park_on": [TimeoutError]})
    assert options.outage_names == ("ConnectionError",)
    assert queue_options("q", "n", {"outage": []}).outage_names == ()
    with refused(ConfigurationError, "exceptions_invalid", name="outage", value="x"):
        queue_options("q", "n", {"outage": "x"})


def test_a_handler_that_was_cut_off_has_to_be_named_itself() -> None:
    for names in (["TimeoutError"], ["OSError"], ["Exception"], ["builtins.TimeoutError"]):
        assert not is_named(HandlerTimeout(), names)
    for name in ("HandlerTimeout", "sequencer.errors.HandlerTimeout"):
        assert is_named(HandlerTimeout(), [name])
    assert [is_named(Undecodable(), [name]) for name in ("ValueError", "Undecodable")] == [False, True]
    options = queue_options("q", "n", {"outage": [HandlerTimeout]})
    assert decide(options, 1, HandlerTimeout(), 0.0).outage


ENDING = [(ValueError(), True), (Park("x"), True)]
NOT_ENDING = [ConnectionError(), HandlerTimeout(), LeaseExpired(), Undecodable(), TooLate(on_late="drop")]


@pytest.mark.parametrize(("error", "ends"), [*ENDING, *((error, False) for error in NOT_ENDING)])
def test_a_probe_whose_handler_failed_otherwise_ends_the_outage(error: BaseException, ends: bool) -> None:
    message = Message("i", ("g",), 1.0, 1, {}, 1, 1, 0.0, "q", 1)
    told = failed_with(PLAIN, message, error, owner="me", at=0.0, random=0.0)
    assert told.ends_outage == ends
    assert told.is_timeout == isinstance(error, HandlerTimeout)


# -- one consumer, in virtual time -----------------------------------------------------------------------------------


class Bank:
    """Is away from the first message on, for so long."""

    def __init__(self, queue: MemoryQueue, away_s: float) -> None:
        self.queue, self.until = queue, queue.now + away_s
        self.failed: list[str] = []
        self.attempts: list[int] = []

    def handle(self, message: Message) -> None:
        if self.queue.now < self.until:
            self.failed.append(message.group[0])
            raise ConnectionError("refused")
        self.attempts.append(message.attempt)


@pytest.mark.slow
def test_a_consumer_ends_its_batch_gives_back_the_rest_and_probes() -> None:
    """Five failures, then one a probe: after 1, 2, 4, 8, 13 ... s."""
    queue = MemoryQueue("orders", max_attempts=2)
    for number in range(300):
        queue.append(number, group=f"g{number % 100}")
    bank = Bank(queue, 90.0)
    done = queue.drain(bank.handle)
    assert len(bank.failed) == 5 + 20
    assert len({*bank.failed}) == 25, "each of another group"
    assert bank.attempts == [1] * 300
    assert 90.0 < done.elapsed_s < 96.0
    assert not done.parked
    assert queue.info().outage is None


@pytest.mark.slow
def test_one_that_fails_where_nothing_else_is_handled_waits_and_is_not_parked() -> None:
    queue = MemoryQueue("orders", max_attempts=2)
    queue.append("x", group="only")
    done = queue.drain(Bank(queue, 3600.0).handle)
    assert not done.parked
    assert len(done.failed) > 50
