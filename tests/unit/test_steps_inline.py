"""Steps that a handler makes as it goes, in a MemoryQueue: the code is the order."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from sequencer.errors import ConfigurationError, Outage, Retry, StopConsuming
from sequencer.testing import MemoryQueue


def shop(handler: Any, **settings: Any) -> Any:
    seq = MemoryQueue("shop", max_attempts=3, **settings)
    seq.handler(handler)
    seq.append({"card": 7}, "ann", id="m")
    return seq


class Ran(list[str]):
    """Functions that note that they ran; `fails` raises so many times first."""

    def does(self, name: str, result: Any = None, fails: Any = None) -> Any:
        def function(*arguments: Any) -> Any:
            self.append(name)
            if fails:
                raise fails.pop(0)
            return result or list(arguments)

        return function


def test_a_step_that_is_done_gives_its_kept_result_and_does_not_run_again() -> None:
    ran, seen, label = Ran(), list[Any](), [ValueError("no paper")]

    def ship(message: Any, steps: Any) -> None:
        payment = steps.run("charge", ran.does("charge", {"id": ("p", 9)}), message.body["card"], once=True)
        seen.append((payment, steps.key("charge"), dict(steps.results)))
        seen.append(steps.run("label", ran.does("label", fails=label), payment["id"], 2))

    done = shop(ship).drain()
    assert ran == ["charge", "label", "label"]
    assert [one[0] for one in seen[:2]] == [{"id": ["p", 9]}] * 2, "as JSON has it, also in the first run"
    assert seen[0][1] == seen[1][1]
    assert seen[0][1].endswith("/charge")
    assert seen[2] == [["p", 9], 2]
    assert len(done.handled) == 1
    assert [str(error) for _, error in done.failed] == ["no paper"]


def test_what_the_code_raises_itself_is_counted_under_a_name_that_no_step_has() -> None:
    ran = Ran()

    def ship(message: Any, steps: Any) -> None:
        steps.run("handler", ran.does("handler"))
        raise KeyError("sku")

    done = shop(ship).drain()
    assert ran == ["handler"]
    assert len(done.failed) == 3
    assert done.parked[0].failure.type == "KeyError"


def test_a_failure_that_the_code_catches_holds_nothing_back() -> None:
    ran, told = Ran(), list[Any]()

    def ship(message: Any, steps: Any) -> None:
        try:
            steps.run("mail", ran.does("mail", fails=[ValueError("no")]))
        except ValueError:
            steps.run("sms", ran.does("sms"))

    seq = shop(ship)
    seq.observe(told.append)
    assert len(seq.drain().handled) == 1
    assert ran == ["mail", "sms"]
    assert told[-1].name == "finished with failures"
    assert list(told[-1].fields["steps"]) == ["mail"]


@pytest.mark.parametrize("fails", [StopConsuming(), ValueError("declined")])
def test_a_once_step_whose_end_is_unknown_parks_at_once_though_the_code_catches_it(fails: BaseException) -> None:
    ran = Ran()
    first = [fails]

    def ship(message: Any, steps: Any) -> None:
        with suppress(Exception):
            steps.run("charge", ran.does("charge", fails=first), once=True)
        steps.run("label", ran.does("label"))

    seq = shop(ship)
    seq.drain()
    done = seq.drain()
    assert ran == ["charge"]
    assert done.parked[0].failure.type == "StepUnknown"
    assert "sequencer resume shop ann --id m --done charge" in done.parked[0].failure.message


@pytest.mark.parametrize(("found", "expected"), [({"id": 1}, ["charge"]), (None, ["charge", "charge"])])
def test_a_check_answers_without_a_person(found: Any, expected: list[str]) -> None:
    ran, keys, first = Ran(), list[str](), [StopConsuming()]

    def check(key: str) -> Any:
        keys.append(key)
        return found

    def ship(message: Any, steps: Any) -> None:
        assert steps.run("charge", ran.does("charge", {"id": 1}, first), once=True, check=check) == {"id": 1}

    seq = shop(ship)
    seq.drain()
    assert len(seq.drain().handled) == 1
    assert ran == expected
    assert keys[0].endswith("/charge")


@pytest.mark.parametrize("error", [Retry("busy", after=3), Outage("away")])
def test_nothing_happened_says_a_signal(error: Exception) -> None:
    ran, first = Ran(), [error]
    seq = shop(lambda message, steps: steps.run("charge", ran.does("charge", fails=first), once=True))
    assert len(seq.drain().handled) == 1
    assert ran == ["charge", "charge"]


def test_a_check_whose_result_can_not_be_kept_ends_the_pass() -> None:
    """Else the code went on without it."""
    ran = Ran()

    def ship(message: Any, steps: Any) -> None:
        steps.run("charge", ran.does("charge", fails=[ValueError("cut off")]), once=True, check=lambda key: object())
        ran.append("on")

    done = shop(ship).drain()
    assert ran == ["charge"]
    assert [group.failure.type for group in done.parked] == ["StepResultInvalid"]


def test_what_is_refused_in_a_run() -> None:
    def ship(message: Any, steps: Any) -> None:
        def refused(*given: Any) -> None:
            with pytest.raises(ConfigurationError):
                steps.run(*given)

        steps.run("a", int)
        refused("a", int)
        refused("", int)
        refused("(handler)", int)
        steps.run("b", lambda: refused("c", int))
        for number in range(62):
            steps.run(f"s{number}", int)
        refused("one more", int)

    assert len(shop(ship).drain().handled) == 1
