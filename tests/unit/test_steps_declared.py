"""What a program registers as steps: what is taken, and one sentence for what is refused."""

from __future__ import annotations

import re
from typing import Any

import pytest

from sequencer import Message, Sequencer
from sequencer.drain.steps.declared import Step
from sequencer.errors import ConfigurationError


def queue(**settings: Any) -> Sequencer:
    return Sequencer("gifts", "redis://127.0.0.1:1", **settings)


def charge(message: Message, step: Any) -> Any:
    return {"payment": step.key}


def mail(message: Message) -> None: ...


async def wait(message: Message) -> None: ...


def steps(*options: dict[str, Any], function: Any = mail) -> Any:
    """Registers a step with each of these."""

    def register(seq: Sequencer) -> None:
        for given in options:
            seq.step(given.get("kind", ""), **{name: one for name, one in given.items() if name != "kind"})(function)

    return register


def handler_and_step(seq: Sequencer) -> None:
    seq.handler(mail)
    seq.step(charge)


def two_checks(seq: Sequencer) -> None:
    step = seq.step(once=True)(charge)
    step.check(charge)
    step.check(charge)


REFUSED: list[tuple[Any, str]] = [
    (steps({}, {"order": 2}), "there are two steps mail"),
    (steps({"name": "a", "after": "b"}, {"name": "b", "after": "a"}), "step a comes after itself"),
    (steps({"after": "mail"}), "step mail comes after itself"),
    (steps({"name": "a", "after": "b"}, {"name": "b", "optional": True}), "step a is required and comes after b"),
    (steps({"after": "charged"}, {"name": "charge"}), "step mail is after charged, which is no step"),
    (steps(*({"name": f"s{number}"} for number in range(65))), "step s64 is one too many"),
    (steps({}, function=wait), "wait is a coroutine function"),
    (steps({}, function=lambda: None), "can't be called with the message"),
    (steps({"kind": "paid"}), "the queue has no kind_by"),
    (handler_and_step, "a queue has a handler or steps, not both"),
    (lambda seq: seq.step(mail).check(mail), "step mail is not once"),
    (two_checks, "step charge already has a check"),
    (lambda seq: seq.step(once=True)(charge).check(wait), "check of step charge"),
    (steps({"name": "a\n"}), "step name 'a\\n' must be"),
    (steps({"name": "(handler)"}), "(handler) stands for the code around the steps"),
    (steps({"order": "first"}), "step mail: order='first' must be"),
    (steps({"attempts": 0}), "step mail: attempts=0 must be"),
    (steps({"once": "yes"}), "step mail: once='yes' must be"),
    (steps({"after": 3}), "step mail: after=3 must be"),
    (steps({"declined": [ValueError]}), "declined"),
    (
        steps({"once": True, "declined": [ValueError], "never_retry": [ValueError]}),
        "ValueError stands in two of",
    ),
    (
        steps({"retry_on": [ValueError], "never_retry": ["ValueError"]}),
        "ValueError stands in two of",
    ),
]


@pytest.mark.parametrize(("register", "said"), REFUSED, ids=range(len(REFUSED)))
def test_what_is_refused_is_said_in_one_sentence(register: Any, said: str) -> None:
    seq = queue()
    with pytest.raises(ConfigurationError, match=re.escape(said)) as refused:
        assert register(seq) or seq.registered_handler
    assert "\n" not in str(refused.value)


def test_with_kinds_names_are_unique_within_one() -> None:
    seq = queue(kind_by="code")
    steps({"kind": "paid"}, {"kind": "sent"})(seq)
    with pytest.raises(ConfigurationError, match="there are two steps mail of kind paid"):
        steps({"kind": "paid"})(seq)
    with pytest.raises(ConfigurationError, match="step mail names no kind"):
        seq.step(mail)


@pytest.mark.parametrize(
    "settings",
    [{"on_unknown": "wait"}, {"on_unresolved": "drop"}, {"kind_by": ""}, {"retired": "mail"}, {"missing_wait": -1}],
)
def test_options_are_checked(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(settings))):
        queue(**settings)


def test_a_step_is_registered_with_parentheses_and_without() -> None:
    seq = queue()
    first = seq.step(mail)
    second = seq.step(order=-1, once=True, after="mail")(charge)
    steps: Any = seq.registered_handler
    assert isinstance(first, Step)
    assert [step.name for step in steps.ordered("")] == ["charge", "mail"]
    assert first("a message") is None, "it can be called as its function"
    assert second.check(charge) is charge
    assert (first.limit(5), seq.step(name="x", optional=True)(mail).limit(5)) == (5, 1)


def test_steps_keep_the_order_of_their_registration() -> None:
    seq = queue()
    for name, order in (("c", 1), ("a", 1), ("b", 0)):
        seq.step(name=name, order=order)(mail)
    steps: Any = seq.registered_handler
    assert [step.name for step in steps.ordered("")] == ["b", "c", "a"]
