"""What the steps of simulated consumers do, and what an operator says of those whose end nobody knows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from sequencer.client import Sequencer
from sequencer.drain.held_group import HeldGroup
from sequencer.drain.steps.actions import Finished
from sequencer.drain.steps.declared import Steps
from sequencer.drain.steps.functions import InlineHandler
from sequencer.drain.steps.inline import InlineSteps
from sequencer.drain.steps.runner import StepRunner
from sequencer.errors import Park, Retry, SetAside
from sequencer.store.group import encode_group
from sequencer.values.history import MessageSteps
from sequencer.values.message import Message, StepCall

from ...support.steps_model.declared import Step
from .stage import Crashed, Process
from .step_plan import declared
from .step_truth import StepTruth

if TYPE_CHECKING:
    from .cast import Cast

IN_STEP = 1.5
"""How much likelier a process is killed or frozen beside a step than elsewhere: a pass has several of them."""
HALF_DONE = 0.5
"""Of steps that raise: how many have taken effect by then."""
NOTHING_HAPPENED = (Retry, Park, SetAside)
"""What says that it did not."""


class StepCast:
    """The steps of all consumers of a seed."""

    def __init__(self, cast: Cast) -> None:
        self._cast = cast

    @property
    def _truth(self) -> StepTruth:
        return self._cast.net.truth.ledger.steps

    def work(self, process: Process) -> Steps | InlineHandler:
        """What handles the messages of this consumer."""
        if self._cast.play.is_inline:
            return InlineHandler(partial(self._handle, process))
        run, check = partial(self._run, process), partial(self._check, process)
        return declared(self._cast.play.steps, run, check, WatchedSteps(cast=self._cast, process=process))

    def _handle(self, process: Process, message: Message, steps: InlineSteps) -> None:
        """The code is the order."""
        cast = self._cast
        if process.is_dead:
            raise Crashed
        fields = cast.run_fields(process, message)
        cast.note("begun", **fields)
        try:
            for step in cast.play.steps:
                call = StepCall(step.name, steps.key(step.name), message.token, 1, None, dict(steps.results))
                check = partial(self._check, process, step, message, call) if step.has_check else None
                function = partial(self._run, process, step, message, call)
                steps.run(step.name, function, once=step.once, check=check and (lambda key, check=check: check()))
        except BaseException as error:
            if not process.is_dead:
                cast.note("failed", kind=type(error).__name__, **fields)
            raise
        cast.note("ended", **fields)

    def _run(self, process: Process, step: Step, message: Message, call: StepCall) -> Any:
        if process.is_dead:
            raise Crashed
        cast, stage, group = self._cast, self._cast.stage, encode_group(message.group)
        cast.net.note(process.name, f"step {call.name} of {group}/{message.id} {message.token=} {call.attempt=}")
        cast.net.truth.ledger.begun(group, message)
        run, began_us = self._truth.began(group, step, message, call), stage.now_us
        cast.on_step(process, IN_STEP)
        stage.sleep(cast.duration_us())
        errors = (ValueError("no"), ValueError("no"), Retry(after=0.05), Retry(), Park("by hand"), SetAside("unusable"))
        is_failing = cast.is_storm and stage.rng.random() < cast.failure_rate(process, began_us)
        error = stage.rng.choice(errors) if is_failing else None
        if error is None or (not isinstance(error, NOTHING_HAPPENED) and stage.rng.random() < HALF_DONE):
            self._truth.acts(run)
        cast.on_step(process, IN_STEP)
        self._truth.ended(run, type(error).__name__ if error else "")
        if error is not None:
            cast.net.faults[f"step raised {type(error).__name__}"] += 1
            raise error
        return run.result

    def _check(self, process: Process, step: Step, message: Message, call: StepCall) -> Any:
        if process.is_dead:
            raise Crashed
        cast, group = self._cast, encode_group(message.group)
        cast.on_step(process, IN_STEP)
        if cast.is_storm and cast.stage.rng.random() < cast.play.failure_rate:
            cast.net.faults["check raised"] += 1
            raise ValueError("no answer")
        found = self._truth.checked(group, step, message, call)
        cast.net.note(process.name, f"check {call.name} of {group}/{message.id}, token={message.token}: {found}")
        return found

    # -- the operator ---------------------------------------------------------------------------------------------

    def resume(self, client: Sequencer, group: tuple[str, ...]) -> object:
        """Let a parked group go on, with an answer to what it asks."""
        found = client.steps(group)
        if found is None or not found.questions:
            return client.resume(group)
        return client.resume(group, id=found.id, **self._answers(found))

    def redrive(self, client: Sequencer) -> object:
        """Put back the dead letters that ask something, with an answer."""
        asking = [letter.steps for letter in client.dead() if letter.steps and letter.steps.questions]
        return [client.redrive(one.group, id=one.id, **self._answers(one)).redriven for one in asking]

    def _answers(self, found: MessageSteps) -> dict[str, Any]:
        """As whoever asks the other side by the key of a step."""
        keys = {one.name: one.key for one in found.steps if one.name in found.questions}
        done = {name: {"said": key} for name, key in keys.items() if self._truth.acted[key]}
        return {"done": done, "again": [name for name in keys if name not in done]}


@dataclass(slots=True)
class WatchedSteps(Steps):
    """Steps of which each pass is noted as the run of a handler."""

    cast: Cast | None = None
    process: Process | None = None

    def note(self, what: str, message: Message, kind: str = "") -> None:
        if self.cast and self.process and not self.process.is_dead:
            self.cast.note(what, kind=kind, **self.cast.run_fields(self.process, message))


def _watched(handle: Any) -> Any:
    def watched(runner: StepRunner, group: HeldGroup, position: int) -> Any:
        steps, message = runner.steps, group.leased.messages[position]
        if not isinstance(steps, WatchedSteps):
            return (yield from handle(runner, group, position))
        steps.note("begun", message)
        end = yield from handle(runner, group, position)
        steps.note(*("ended", message) if isinstance(end, Finished) else ("failed", message, "unfinished"))
        return end

    return watched


StepRunner.handle = _watched(StepRunner.handle)  # type: ignore[method-assign]
