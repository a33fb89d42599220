"""Steps in a MemoryQueue: the real drain, notes, scripts and ledgers, in virtual time."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from functools import partial
from typing import Any

import pytest

from sequencer.errors import AnswerNeeded, Outage, Park, Retry, SetAside, StepResultInvalid, StopConsuming
from sequencer.testing import MemoryQueue


class CardDeclined(Exception):
    pass


class Bank:
    """Ten things after a gift, of which any can be made to fail, so many times."""

    def __init__(self, **failures: list[BaseException | None]) -> None:
        self.failures = failures
        self.ran: Counter[str] = Counter()

    def __call__(self, name: str, result: Any = "ok") -> Any:
        self.ran[name] += 1
        errors = self.failures.get(name, [])
        if errors and (error := errors.pop(0)) is not None:
            raise error
        return result


def gifts(bank: Bank, **settings: Any) -> Any:
    seq = MemoryQueue("gifts", group_by=["couple"], id_by="gift", max_attempts=3, **settings)

    @seq.step(order=10, once=True, declined=(CardDeclined,))
    def charge(message: Any, step: Any) -> Any:
        return bank("charge", {"key": step.key, "attempt": step.attempt})

    @seq.step(order=20, after="charge")
    def points(message: Any, step: Any) -> Any:
        return bank("points", ("by", step.result["attempt"]))

    @seq.step(order=30, optional=True)
    def notify(message: Any) -> None:
        bank("notify")

    seq.append({"couple": "ann", "gift": "g7"})
    return seq


def test_what_failed_is_tried_again_and_what_is_done_is_not() -> None:
    bank = Bank(points=[ValueError("no"), ValueError("no")])
    done = gifts(bank).drain()
    assert [run.step for run in done.steps] == ["charge", "points", "notify", "points", "points"]
    assert [message.id for message in done.handled] == ["g7"]
    assert [str(error) for _, error in done.failed] == ["no", "no"]
    assert done.steps[0].key.startswith("gifts/ann/g7/")
    assert done.steps[0].key.endswith("/charge")


def test_a_step_of_which_nobody_knows_the_end_is_a_question() -> None:
    bank = Bank(charge=[StopConsuming()])
    seq = gifts(bank)
    assert seq.drain().reason == "stopped"
    done = seq.drain()
    assert bank.ran == {"charge": 1, "notify": 1}, "the others of the pass go on, but for what comes after it"
    (group,) = done.parked
    assert group.failure.type == "StepUnknown"
    steps = {step.name: step.state for step in seq.steps("ann").steps}
    assert steps == {"charge": "started", "points": "open", "notify": "done"}


def test_a_check_that_ends_its_process_too_is_asked_about() -> None:
    seq: Any = MemoryQueue("gifts", max_attempts=1)
    seq.step(name="charge", once=True)(lambda message: None).check(lambda message: "paid")
    seq.append({}, "ann")
    for _ in range(2):
        with pytest.raises(AssertionError):
            seq.drain(max_effects=2)  # the claim, and the note of the start or of what the check is asked
        seq.advance(60)
    done = seq.drain()
    assert not done.steps
    assert done.parked[0].failure.type == "StepUnknown"


@pytest.mark.parametrize(
    ("error", "settings", "is_dead"),
    [
        (Park("look"), {}, False),
        (SetAside("no card"), {}, True),
        (CardDeclined("no money"), {"on_failure": "dead_letter"}, True),
    ],
)
def test_a_step_that_says_that_nothing_happened_is_no_question_and_runs_again_when_asked_to(
    error: Exception, settings: Any, is_dead: bool
) -> None:
    seq = gifts(Bank(charge=[error]), **settings)
    done = seq.drain()
    assert [run.step for run in done.steps] == ["charge"]
    assert bool(done.dead) is is_dead
    assert seq.steps("ann", "g7").questions == ()
    if is_dead:
        seq.redrive(everything=True)
    else:
        seq.resume("ann")
    assert len(seq.drain().handled) == 1


def test_what_has_no_attempts_left_parks_and_is_tried_anew_once_it_is_resumed() -> None:
    bank = Bank(points=[ValueError("no")] * 4)
    seq = gifts(bank)
    done = seq.drain()
    assert bank.ran["points"] == 3
    assert done.parked[0].failure.message == "no"
    assert [run.message.attempt for run in done.steps if run.step == "points"] == [1, 2, 3]
    assert [one.error for one in seq.steps("ann").failures] == ["ValueError: no"] * 3
    seq.resume("ann")
    assert len(seq.drain().handled) == 1
    assert bank.ran == {"charge": 1, "points": 5, "notify": 1}


def test_a_step_that_is_done_at_its_last_attempt_does_not_count_for_a_message_that_is_resumed() -> None:
    bank = Bank(charge=[Retry("busy"), Retry("busy")], points=[ValueError("no")] * 3)
    seq = gifts(bank)
    assert [run.message.attempt for run in seq.drain().steps if run.step == "charge"] == [1, 2, 3]
    seq.resume("ann")
    assert max(run.message.attempt for run in seq.drain().steps) <= 3


def test_an_optional_step_holds_nothing_back_and_its_failure_is_told() -> None:
    told: list[Any] = []
    seq = gifts(Bank(notify=[ValueError("no")]))
    seq.observe(told.append)
    assert len(seq.drain().handled) == 1
    assert [event.name for event in told] == ["step failed", "finished with failures"]
    assert [told[0].fields[name] for name in ("id", "step", "attempt", "is_check")] == ["g7", "notify", 1, False]
    assert told[1].fields["steps"] == {"notify": "ValueError: no"}


@pytest.mark.parametrize("option", [{"retry_on": [OSError]}, {"never_retry": [ValueError]}])
def test_errors_that_are_not_tried_again_give_the_step_up(option: Any) -> None:
    bank, seq = Bank(points=[ValueError("no")] * 3), MemoryQueue("gifts", max_attempts=3)
    seq.step(name="points", **option)(lambda message: bank("points"))
    seq.append({}, "ann", id="g7")
    assert len(seq.drain().parked) == 1
    assert bank.ran["points"] == 1


@pytest.mark.slow
@pytest.mark.parametrize(("error", "once"), [(ConnectionError("away"), False), (Outage("away"), True)])
def test_a_long_outage_parks_nothing(error: Exception, once: bool) -> None:
    """However often two groups are tried: while the shard handles nothing, it is no trouble of their own."""
    bank, seq = Bank(points=[error] * 60), MemoryQueue("gifts", max_attempts=2)
    seq.step(name="points", once=once)(lambda message: bank("points"))
    for group in ("ann", "bob"):
        seq.append({}, group, id="g7")
    done = seq.drain()
    assert (len(done.handled), done.parked, bank.ran["points"]) == (2, [], 62)


@pytest.mark.slow
@pytest.mark.parametrize("is_check", [False, True])
def test_what_one_group_alone_needs_is_no_outage_for_ever(is_check: bool) -> None:
    """Else it waits for ever where others are handled: its step counts its attempts, and so does a check."""
    seq, ran = MemoryQueue("gifts", max_attempts=2), Counter[str]()

    def need(message: Any) -> None:
        ran[message.group[0]] += 1
        if message.group == ("ann",):
            raise ConnectionError("no such host")

    if is_check:
        seq.step(name="charge", once=True)(need).check(need)
    else:
        seq.step(name="charge")(need)
    seq.append({}, "ann", id="g7")
    for _ in range(40):
        seq.append({}, "bob")
        seq.consume(max_messages=2)
        seq.advance(60)
    assert [group.failure and group.failure.type for group in seq.parked()] == [
        "StepUnknown" if is_check else "ConnectionError"
    ]
    assert 10 <= ran["ann"] <= 15
    assert ran["bob"] == 40


def test_progress_gives_the_message_its_leases_anew() -> None:
    """Each step takes longer than its lease, and its process ends: seven steps end with three attempts."""
    seq, ran = MemoryQueue("gifts", max_attempts=2), Counter[str]()
    for number in range(5):

        def step(message: Any, call: Any) -> None:
            ran[call.name] += 1
            if ran[call.name] == 1 and call.name != "s0":
                raise KeyboardInterrupt

        seq.step(name=f"s{number}", order=number)(step)
    seq.append({}, "ann", id="g7")
    for _ in range(4):
        with pytest.raises(KeyboardInterrupt):
            seq.drain()
        seq.advance(20)
    assert len(seq.drain().handled) == 1
    assert ran == {"s0": 1, "s1": 2, "s2": 2, "s3": 2, "s4": 2}


def results_of_two_runs() -> list[Any]:
    """What a step gets of the one before it, which returned a tuple, in the first run and in the one behind it."""
    seen: list[Any] = []
    seq = MemoryQueue("gifts")
    first = seq.step(name="first")(lambda message: (1, 2))

    @seq.step(order=2, after=first)
    def second(message: Any, step: Any) -> None:
        seen.append((step.result, dict(step.results), step.attempt))
        if step.attempt == 1:
            raise ValueError("no")

    seq.append({}, "ann", id="g7")
    seq.drain()
    return seen


RESULTS = [([1, 2], {"first": [1, 2]}, 1), ([1, 2], {"first": [1, 2]}, 2)]


def test_results_are_what_json_makes_of_them_also_in_the_first_run() -> None:
    assert results_of_two_runs() == RESULTS


def test_a_raw_result_in_the_first_run_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sequencer.drain.steps.passes.kept_result", lambda result: result)
    assert results_of_two_runs() == [((1, 2), {"first": (1, 2)}, 1), RESULTS[1]]


@pytest.mark.parametrize(
    "result", [Decimal("1.10"), "x" * 1_000_000, float("nan")], ids=["a decimal", "1 MB", "not a number"]
)
def test_a_result_that_can_not_be_kept_repeats_nothing(result: Any) -> None:
    ran: list[str] = []
    seq = MemoryQueue("gifts")

    @seq.step
    def points(message: Any) -> Any:
        ran.append("points")
        return result

    seq.step(name="mail", order=2)(lambda message: ran.append("mail"))
    seq.append({}, "ann", id="g7")
    ((_, error),) = seq.drain().failed
    assert isinstance(error, StepResultInvalid)
    with pytest.raises(AnswerNeeded):
        seq.resume("ann")
    assert ran == ["points"], "the step took effect"
    seq.resume("ann", done={"points": None})
    assert len(seq.drain().handled) == 1
    assert ran == ["points", "mail"]


# -- time limit and backoff of a step --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first_s", "second_s", "waited_s"),
    [
        (None, None, 1.5),  # the queue's: 1 s, then 2 s, of which three quarters are waited
        (4, None, 9.0),
        (4, 8, 18.0),  # each waits for the longest of what failed with it
        (0.1, None, 1.5),  # the second one has the queue's
        (0.1, 0.1, 0.225),
    ],
)
def test_backoff_is_the_longest_of_the_steps_that_failed(
    first_s: float | None, second_s: float | None, waited_s: float
) -> None:
    bank = Bank(first=[ValueError("no")] * 2, second=[ValueError("no")] * 2)
    queue = MemoryQueue(backoff=2 / 3, max_attempts=5)
    queue.step(name="first", backoff=first_s)(lambda message: bank("first"))
    queue.step(name="second", backoff=second_s)(lambda message: bank("second"))
    queue.append(1, group="g")
    assert queue.drain().elapsed_s == pytest.approx(waited_s, abs=0.01)


def test_backoff_of_a_step_that_is_over_counts_for_nothing() -> None:
    bank = Bank(first=[ValueError("no")], second=[ValueError("no")])
    queue = MemoryQueue(backoff=2 / 3)
    queue.step(name="first")(lambda message: bank("first"))
    queue.step(name="second", backoff=100, optional=True)(lambda message: bank("second"))
    queue.append(1, group="g")
    assert queue.drain().elapsed_s == pytest.approx(0.5, abs=0.01)


def test_a_handler_has_a_backoff_of_its_own_and_retry_goes_before_it() -> None:
    queue, errors = MemoryQueue(), [ValueError("no"), Retry(after=7), Outage("no")]

    @queue.handler(backoff=4)
    def handle(message: Any) -> None:
        if errors:
            raise errors.pop()

    queue.append(1, group="g")
    assert queue.drain().elapsed_s == pytest.approx(3 + 7 + 6, abs=0.01)


def test_a_step_has_a_time_limit_of_its_own_in_virtual_time() -> None:
    queue, ran = MemoryQueue(max_attempts=1), list[str]()

    def pause(name: str, seconds: float, message: Any) -> None:
        queue.advance(seconds)
        ran.append(name)

    for name, timeout, seconds in (("longer", 60, 10), ("shorter", 3, 5), ("plain", None, 10)):
        queue.step(name=name, timeout=timeout)(partial(pause, name, seconds))
    queue.append(1, group="g")
    done = queue.drain(handler_timeout=8)
    assert ran == ["longer"]
    assert [type(run.error).__name__ for run in done.steps] == ["NoneType", "HandlerTimeout", "HandlerTimeout"]
