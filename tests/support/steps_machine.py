"""The stateful machine with steps: notes go over the links of its consumers, and are lost as all else is.

What it judges besides the order of messages: which steps of a message run again.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from hypothesis import strategies as st
from hypothesis.stateful import rule

from sequencer.drain.effects import Run
from sequencer.drain.steps.declared import PassWatcher, Steps, new_step
from sequencer.errors import Park, Retry, SetAside
from sequencer.values.message import Message

from .machine import FAILURES, ConsumersMachine

if TYPE_CHECKING:
    from .simulated_consumer import SimConsumer

STEPS = (("first", False), ("charge", True), ("points", False))
"""Name, and whether it is `once`."""


class Called(NamedTuple):
    """A call of a step under a valid lease."""

    step: str
    token: int
    attempt: int


class StepsMachine(ConsumersMachine, PassWatcher):
    """Each message has three steps."""

    def begin_with(self, policy: Any, queue: Any) -> None:
        self.calls: dict[str, list[Called]] = defaultdict(list)
        """Member -> its calls, in their order."""
        self.returned: set[tuple[str, Called]] = set()
        self.nothing: set[tuple[str, Called]] = set()
        """Calls that said that nothing had happened."""
        self.declared = Steps(watcher=self)
        for order, (name, once) in enumerate(STEPS):
            self.declared.add(new_step(lambda message: None, name=name, order=order, once=once))
        super().begin_with(policy, queue)

    # -- what passes do ------------------------------------------------------------------------------------------

    def ended(self, message: Message, *, is_finished: bool) -> None:
        if is_finished:
            self.on_success(self.consumers[0], message)

    def called(self, consumer: SimConsumer) -> tuple[str, Called]:
        assert isinstance(consumer.effect, Run)
        message, call = consumer.effect.message, consumer.effect.call
        return f"{message.stamp:016d}{message.id}", Called(call.name, message.token, call.attempt)

    def on_start(self, consumer: SimConsumer, message: Message) -> None:
        super().on_start(consumer, message)
        member, called = self.called(consumer)
        for place, one in enumerate(self.calls[member]):
            if one.step != called.step:
                continue
            behind = self.calls[member][place + 1 :]
            is_noted = any(other.step != one.step and other.token == one.token for other in behind)
            is_done = (member, one) in self.returned
            assert not (is_done and is_noted), f"{called} of {member} runs again, and another one had begun behind it"
            is_free = called.step != "charge" or (member, one) in self.nothing
            assert is_free, f"{called} of {member} runs a second time"
        self.calls[member].append(called)

    @rule(which=st.integers(0, 1))
    def succeed(self, which: int) -> None:
        consumer = self.consumers[which]
        if consumer.running is not None:
            self.returned.add(self.called(consumer))
            consumer.end()

    @rule(which=st.integers(0, 1), failure=st.sampled_from(FAILURES))
    def fail(self, which: int, failure: Exception) -> None:
        consumer = self.consumers[which]
        if consumer.running is not None:
            if isinstance(failure, Retry | Park | SetAside):
                self.nothing.add(self.called(consumer))
            consumer.end(failure)

    @rule(which=st.integers(0, 1), count=st.integers(1, 6))
    def go_on(self, which: int, count: int) -> None:
        """Some steps in a row that end well, with their notes."""
        for _ in range(count):
            self.begin(which)
            self.succeed(which)
