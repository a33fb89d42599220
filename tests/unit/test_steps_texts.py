"""What a person reads of a step that needs one: the question, and the commands that answer it."""

from __future__ import annotations

from typing import Any

import pytest

from sequencer.drain.steps.actions import PassFacts, Unfinished
from sequencer.drain.steps.declared import Function, Steps, new_step
from sequencer.drain.steps.passes import Pass
from sequencer.errors import StepFailed, StepMissing, StepResultInvalid, StepUnknown, TooLate
from sequencer.settings.options import QueueOptions
from sequencer.store.ledger import Entry, Ledger

STARTED = Entry("charge", once=True, state="started", token=1, at=1_800_000_184.0, runs=3)
FAILED = Entry("label", once=True, state="failed", attempts=1, token=1, at=1_800_000_184.0, error="OSError: no paper")


def end_of(*entries: Entry, facts: dict[str, Any] | None = None, options: dict[str, Any] | None = None) -> Unfinished:
    """The end of a pass that calls nothing; of these entries only `charge` and `points` are declared."""
    steps = Steps()
    for name in ("charge", "points"):
        run = Function(lambda message: None, takes_call=False)
        steps.add(new_step(run, checked=lambda function, _: Function(function), once=name == "charge", name=name))
    one = Pass(
        QueueOptions(queue="gifts", retired=("label",), **(options or {})),
        steps,
        PassFacts("gifts", ("ann", "b"), "g7", 1, 2, **(facts or {})),
        Ledger(1, entries),
        clock=lambda: 0.0,
        is_stopping=lambda: False,
    )
    with pytest.raises(StopIteration) as stopped:
        next(one.run())
    end = stopped.value.value
    assert isinstance(end, Unfinished)
    return end


DONE = Entry("points", state="done")
UNKNOWN = "step charge began at 2027-01-15 08:03:04 UTC"


@pytest.mark.parametrize(
    ("entries", "given", "error", "said"),
    [
        ((STARTED, DONE), {}, StepUnknown,
         f"{UNKNOWN}, and its end is not known; look whether it took effect; "
         "if it did: sequencer resume gifts ann b --id g7 --done charge --attempt 3; if it did not: sequencer resume "
         "gifts ann b --id g7 --again charge --attempt 3"),
        ((STARTED, DONE), {"facts": {"lost_owner": "host:4711"}}, StepUnknown, f"{UNKNOWN} in host:4711, and its end"),
        ((STARTED, DONE), {"options": {"on_unresolved": "dead_letter"}}, StepUnknown,
         "if it did: sequencer dead redrive gifts ann b --id g7 --done charge --attempt 3; if"),
        ((STARTED, DONE), {"options": {"namespace": "shop"}}, StepUnknown,
         "sequencer resume gifts ann b --id g7 --done charge --attempt 3 --namespace shop"),
        ((FAILED, STARTED, DONE), {"facts": {"refusal": TooLate(1.0, "2", "drop"), "refusal_ending": "drop"}},
         StepUnknown, "step label failed at 2027-01-15 08:03:04 UTC (OSError: no paper), and may have taken effect; "
         f"{UNKNOWN}"),
        ((Entry("mail"), DONE), {}, StepMissing,
         "step mail of another version is not done, and this version lacks it; run a version that has it, or say that "
         "nothing is left to do: sequencer resume gifts ann b --id g7 --done mail"),
        ((Entry("mail"), Entry("sms"), DONE), {}, StepMissing, "steps mail, sms of another version are not done"),
        ((), {"facts": {"kind": "refund"}}, StepMissing, "no step is declared for kind 'refund'; this version has "),
        ((Entry("points", state="done", error="the result is 70000 bytes as JSON, at most 16384"),), {},
         StepResultInvalid, "step points is done, and will not run again, but its result can't be kept: the result is "
         "70000 bytes as JSON, at most 16384; say the result as JSON: sequencer resume gifts ann b --id g7 "
         "--done points --result null"),
        ((Entry("charge", once=True, state="done"), Entry("points", state="failed", attempts=9, error="KeyError: 'x'")),
         {}, StepFailed, "no attempt is left for points (KeyError: 'x')"),
    ],
    ids=range(10),
)  # fmt: skip
def test_what_a_person_reads(entries: tuple[Entry, ...], given: Any, error: type[Exception], said: str) -> None:
    end = end_of(*entries, **given)
    assert type(end.error) is error
    assert said in str(end.error)


def test_a_question_names_its_steps_and_both_answers() -> None:
    error = end_of(STARTED, DONE).error
    assert isinstance(error, StepUnknown)
    assert error.steps == ("charge",)
    assert error.done == "sequencer resume gifts ann b --id g7 --done charge --attempt 3"
    assert error.again == "sequencer resume gifts ann b --id g7 --again charge --attempt 3"
