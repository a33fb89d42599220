"""resume_many and skip_many do to a queue what one-by-one resume and skip do: two queues with our scripts, in step."""

from __future__ import annotations

import logging
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from sequencer import Message
from sequencer.errors import Park
from sequencer.testing import MemoryQueue

from ..support.changed_script import changed_script

GROUPS = st.sampled_from("abcde")
OPTIONS: list[dict[str, Any]] = [
    {"max_attempts": 1},
    {"max_attempts": 2, "backoff": 5.0, "dedup_window": 0.0},
    {"max_attempts": 1, "sequence": True, "gap_timeout": 1.0},
]


class SlowError(Exception):
    """Is over soon."""


ERRORS = {"slow": SlowError("too slow"), "bad": ValueError("no"), "park": Park("stop")}
CHOICES = st.sampled_from([{"everything": True}, {"error": "SlowError"}, {"error": "*: *o*"}, {"since": 3.0}])


class ManyMachine(RuleBasedStateMachine):
    """One queue is fixed by calls for many, the other one group by group."""

    def __init__(self) -> None:
        super().__init__()
        logging.disable(logging.ERROR)  # each failure would be a few lines
        self.both: list[MemoryQueue] = []
        self.numbers: dict[str, int] = {}

    @initialize(options=st.sampled_from(OPTIONS))
    def begin(self, options: dict[str, Any]) -> None:
        self.both = [MemoryQueue("jobs", **options), MemoryQueue("jobs", **options)]

    @rule(
        bodies=st.dictionaries(GROUPS, st.sampled_from(["slow", "bad", "park", "fine"]), min_size=2),
        step=st.sampled_from([1, 1, 1, 2]),
        most=st.sampled_from([None, None, 2]),
        is_healed=st.sampled_from([False, False, False, True]),
    )
    def work(self, bodies: dict[str, str], step: int, most: int | None, is_healed: bool) -> None:
        """Messages come and are handled; now and then what the handler depends on is there again."""

        def handle(message: Message) -> None:
            if (error := ERRORS.get(message.body)) and not is_healed:
                raise error

        for group, body in bodies.items():
            number = self.numbers[group] = self.numbers.get(group, 0) + step
            for queue in self.both:
                queue.append(body, group=group, id=f"m{number}", score=number)
        for queue in self.both:
            queue.consume(handle, max_messages=most)

    @rule(seconds=st.sampled_from([0.5, 2.0, 10.0]))
    def advance(self, seconds: float) -> None:
        for queue in self.both:
            queue.advance(seconds)

    @rule(group=GROUPS)
    def pause(self, group: str) -> None:
        for queue in self.both:
            queue.pause(group)

    @rule()
    def unpause(self) -> None:
        many, one = self.both
        done = many.unpause_many(everything=True)
        names = one.paused_groups()
        assert (done.done, done.changed) == (sum([one.unpause(name) for name in names]), 0)
        self.compare()

    @rule(choice=CHOICES)
    def resume(self, choice: dict[str, Any]) -> None:
        many, one = self.both
        chosen = self.chosen(one, choice)
        done = many.resume_many(**choice)
        assert (done.chosen, done.done) == (len(chosen), sum([one.resume(group) for group in chosen]))
        self.compare()

    @rule(choice=CHOICES, discard=st.booleans())
    def skip(self, choice: dict[str, Any], discard: bool) -> None:
        many, one = self.both
        chosen = self.chosen(one, choice)
        done = many.skip_many(**choice, discard=discard)
        for group in chosen:
            assert isinstance(one.skip(group, dead_letter=not discard), Message)
        assert (done.chosen, done.done) == (len(chosen), len(chosen))
        self.compare()

    def teardown(self) -> None:
        logging.disable(logging.NOTSET)  # first: a machine that turns red must leave the others their logs
        if self.both:
            self.compare()

    @staticmethod
    def chosen(queue: MemoryQueue, choice: dict[str, Any]) -> list[tuple[str, ...]]:
        """What such a choice says, by what is told of each group; a paused one that is parked counts as parked."""
        found = []
        for info in queue.groups():
            failure = info.failure
            if queue.explain(info.group).text.find("is parked on") < 0 or failure is None:
                continue
            fits = {
                "everything": True,
                "error": choice.get("error") == failure.type or "o" in failure.message,
                "since": failure.at >= queue.now - 3.0,
            }
            if choice.get("error") == "SlowError":
                fits["error"] = failure.type == "SlowError"
            if fits[next(iter(choice))]:
                found.append(info.group)
        return found

    def compare(self) -> None:
        many, one = map(state_of, self.both)
        assert many == one


def state_of(queue: MemoryQueue) -> Any:
    groups = [
        (info.group, info.state, info.backlog, info.head_id, info.attempts, info.failure and info.failure.id)
        for info in queue.groups()
    ]
    dead = [(letter.message.group, letter.message.id, letter.attempts, letter.error.type) for letter in queue.dead()]
    marks = [queue.explain(group).text for group in "abcde"]
    return sorted(groups), sorted(dead), queue.info().totals, marks


TestMany = pytest.mark.slow(ManyMachine.TestCase)
TestMany.settings = settings(max_examples=20, stateful_step_count=12, deadline=None)


@pytest.mark.slow
def test_a_control_that_leaves_the_attempts_is_noticed() -> None:
    quick = settings(
        max_examples=100,
        stateful_step_count=12,
        deadline=None,
        phases=[Phase.generate],
        derandomize=True,
        database=None,
    )
    with changed_script("resume_many", "'0000' .. sub(record, 21)", "sub(record, 17)"), pytest.raises(AssertionError):
        run_state_machine_as_test(ManyMachine, settings=quick)
