"""Steps in a MemoryQueue: the real drain, notes, scripts and ledgers, in virtual time."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from sequencer.errors import (
    Outage,
    Retry,
    StepUnknown,
    StopConsuming,
)
from sequencer.store.ledger import decode_ledger
from sequencer.store.record import decode_head
from sequencer.testing import MemoryQueue
from sequencer.testing.memory_queue import Drained


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

    @seq.step(order=10, once=True)
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


def names(done: Drained) -> list[str]:
    return [run.step for run in done.steps]


def ledger_of(seq: Any, group: tuple[str, ...] = ("ann",)) -> Any:
    with seq._net.link() as link:
        record = link.command("HGET", f"{{sequencer:gifts:0}}:body:{':'.join(group)}", "g7")
    written = decode_head(record).written
    return None if written is None else decode_ledger(written.ledger)


def test_each_step_runs_once_in_its_order_and_the_message_is_gone() -> None:
    bank = Bank()
    done = gifts(bank).drain()
    assert names(done) == ["charge", "points", "notify"]
    assert [message.id for message in done.handled] == ["g7"]
    assert done.steps[0].key.startswith("gifts/ann/g7/")
    assert done.steps[0].key.endswith("/charge")


def test_what_failed_is_tried_again_and_what_is_done_is_not() -> None:
    bank = Bank(points=[ValueError("no"), ValueError("no")])
    seq = gifts(bank)
    done = seq.drain()
    assert bank.ran == {"charge": 1, "points": 3, "notify": 1}
    assert len(done.handled) == 1
    assert [str(error) for _, error in done.failed] == ["no", "no"]


# -- once ----------------------------------------------------------------------------------------------------------


def test_a_step_of_which_nobody_knows_the_end_is_a_question() -> None:
    bank = Bank(charge=[StopConsuming()])
    seq = gifts(bank)
    assert seq.drain().reason == "stopped"
    done = seq.drain()
    assert bank.ran == {"charge": 1, "notify": 1}, "the others of the pass go on, but for what comes after it"
    (group,) = done.parked
    assert group.failure.type == "StepUnknown"
    assert "step charge began at 2027-01-15 08:00:00 UTC" in group.failure.message
    commands = "gifts ann --id g7 --done charge --attempt 1; if it did not: sequencer resume gifts ann --id g7 --again "
    assert commands in group.failure.message
    entries = {entry.name: entry.state for entry in ledger_of(seq).entries}
    assert entries == {"charge": "started", "points": "open", "notify": "done"}


def test_a_once_step_that_raised_is_a_question_too_with_its_error_as_the_cause() -> None:
    seq = gifts(Bank(charge=[ValueError("declined")]))
    ((_, error),) = seq.drain().failed
    assert isinstance(error, StepUnknown)
    assert "step charge failed at 2027-01-15 08:00:00 UTC (ValueError: declined)" in str(error)
    assert isinstance(error.__cause__, ValueError)


def test_a_question_becomes_a_dead_letter_where_the_queue_says_so() -> None:
    seq = gifts(Bank(charge=[ValueError("declined")]), on_unresolved="dead_letter")
    (letter,) = seq.drain().dead
    assert "sequencer dead redrive gifts ann --id g7 --done charge" in letter.error.message


def test_a_retry_by_hand_says_that_nothing_happened() -> None:
    bank = Bank(charge=[Retry("busy", after=5)])
    seq = gifts(bank)
    done = seq.drain()
    assert bank.ran == {"charge": 2, "points": 1, "notify": 1}
    assert len(done.handled) == 1


@pytest.mark.parametrize(("found", "ran"), [({"key": "p9"}, 1), (None, 2)])
def test_a_check_answers_without_a_person(found: Any, ran: int) -> None:
    bank, keys = Bank(charge=[StopConsuming()]), []
    seq = MemoryQueue("gifts")

    @seq.step(once=True)
    def charge(message: Any, step: Any) -> Any:
        keys.append(step.key)
        return bank("charge", {"key": "p1"})

    @charge.check
    def charged(message: Any, step: Any) -> Any:
        keys.append(step.key)
        return found

    seq.append({}, "ann", id="g7")
    seq.drain()
    done = seq.drain()
    assert bank.ran["charge"] == ran
    assert len(set(keys)) == 1
    assert [(run.step, run.is_check) for run in done.steps] == [("charge", True), ("charge", False)][:ran]
    assert len(done.handled) == 1


@pytest.mark.parametrize("failing", ["charge", "points", ""])
def test_a_step_after_several_waits_for_all_of_them(failing: str) -> None:
    seq: Any = MemoryQueue("gifts", max_attempts=1)
    results = list[Any]()

    def run(message: Any, step: Any) -> Any:
        if step.name == failing:
            raise ValueError("no")
        return step.name

    charge = seq.step(name="charge")(run)
    seq.step(name="points", order=2)(run)
    seq.step(name="mail", order=3, after=[charge, "points"])(lambda message, step: results.append(step.results))
    seq.append({}, "ann")
    assert len(seq.drain().handled) == (not failing)
    assert results == ([] if failing else [{"charge": "charge", "points": "points"}])


# -- what becomes of the message --------------------------------------------------------------------------------------


def test_what_has_no_attempts_left_parks_and_is_tried_anew_once_it_is_resumed() -> None:
    bank = Bank(points=[ValueError("no")] * 4)
    seq = gifts(bank)
    done = seq.drain()
    assert bank.ran["points"] == 3
    assert done.parked[0].failure.message == "no"
    assert {entry.name: (entry.attempts, entry.runs) for entry in ledger_of(seq).entries}["points"] == (0, 3)
    assert [run.message.attempt for run in done.steps if run.step == "points"] == [1, 2, 3]
    assert [one.error for one in ledger_of(seq).log] == ["ValueError: no"] * 3
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
    failed = {name: told[0].fields[name] for name in ("id", "step", "attempt", "attempts", "error", "is_check")}
    assert failed == {"id": "g7", "step": "notify", "attempt": 1, "attempts": 1, "error": "no", "is_check": False}
    assert told[1].fields["steps"] == {"notify": "ValueError: no"}


@pytest.mark.parametrize(("option", "ran"), [({"retry_on": [OSError]}, 1), ({"never_retry": [ValueError]}, 1), ({}, 3)])
def test_errors_that_are_not_tried_again_give_the_step_up(option: Any, ran: int) -> None:
    bank, seq = Bank(points=[ValueError("no")] * 3), MemoryQueue("gifts", max_attempts=3)
    seq.step(name="points", **option)(lambda message: bank("points"))
    seq.append({}, "ann", id="g7")
    assert len(seq.drain().parked) == 1
    assert bank.ran["points"] == ran


def test_an_outage_costs_no_try() -> None:
    bank, seq = Bank(points=[Outage("away"), *[ConnectionError("away")] * 3]), MemoryQueue("gifts", max_attempts=1)
    seq.step(name="points")(lambda message: bank("points"))
    seq.append({}, "ann", id="g7")
    assert len(seq.drain().handled) == 1
    assert bank.ran["points"] == 5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("error", "once"), [(ConnectionError("away"), False), (Outage("away"), False), (Outage("away"), True)]
)
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


def test_what_an_optional_step_needs_is_no_outage() -> None:
    """It is tried once, and neither its group nor the queue waits until its mail server is back."""
    bank, seq = Bank(mail=[ConnectionError("away")] * 9), MemoryQueue("gifts")
    seq.step(name="mail", optional=True)(lambda message: bank("mail"))
    seq.append({}, "ann", id="g7")
    done = seq.drain()
    assert (len(done.handled), done.failed, bank.ran["mail"]) == (1, [], 1)


def test_an_outage_in_a_once_step_is_a_question() -> None:
    seq = gifts(Bank(charge=[ConnectionError("away")]))
    assert isinstance(seq.drain().failed[0][1], StepUnknown)


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


def test_a_step_that_ends_its_process_is_found() -> None:
    seq: Any = MemoryQueue("gifts", max_attempts=2)
    ran = Counter[str]()

    def points(message: Any) -> None:
        ran["points"] += 1
        raise KeyboardInterrupt

    seq.step(points)
    seq.append({}, "ann", id="g7")
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            seq.drain()
        seq.advance(20)
    assert seq.drain().parked[0].failure.type == "LeaseExpired"
    assert ran["points"] == 2
