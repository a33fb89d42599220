"""What a program registers as steps: what is taken, and one sentence for what is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from sequencer import Message, Sequencer
from sequencer.drain.steps.declared import Step
from sequencer.errors import ConfigurationError, HandlerNotFound


def queue(**settings: Any) -> Sequencer:
    return Sequencer("gifts", "redis://127.0.0.1:1", **settings)


def charge(message: Message, step: Any) -> Any:
    return {"payment": step.key}


def mail(message: Message) -> None: ...


async def wait(message: Message) -> None: ...


def lines(message: Message) -> Iterator[int]:
    yield 1


def three(message: Message, step: Any, session: object) -> None: ...


def two_of_one_name(seq: Sequencer) -> None:
    seq.step(mail)
    seq.step(order=2)(mail)


def two_of_one_kind(seq: Sequencer) -> None:
    seq.step("paid")(mail)
    seq.step("paid", order=2)(mail)


def circle(seq: Sequencer) -> None:
    seq.step(name="a", after="b")(mail)
    seq.step(name="b", after="a")(mail)


def behind_optional(seq: Sequencer) -> None:
    seq.step(name="a", after="b")(mail)
    seq.step(name="b", optional=True)(mail)


def behind_nothing(seq: Sequencer) -> None:
    seq.step(after="charged")(mail)
    seq.step(charge)
    assert seq.registered_handler


def too_many(seq: Sequencer) -> None:
    for number in range(65):
        seq.step(name=f"s{number}")(mail)


def handler_then_step(seq: Sequencer) -> None:
    seq.handler(mail)
    seq.step(charge)


def step_then_handler(seq: Sequencer) -> None:
    seq.step(charge)
    seq.handler(mail)


def check_of_automatic(seq: Sequencer) -> None:
    seq.step(mail).check(mail)


def two_checks(seq: Sequencer) -> None:
    step = seq.step(once=True)(charge)
    step.check(charge)
    step.check(charge)


def odd_check(seq: Sequencer) -> None:
    seq.step(once=True)(charge).check(wait)


REFUSED: list[tuple[Any, str]] = [
    (two_of_one_name, "there are two steps mail; give one of them another name: @seq.step(name='...')"),
    (circle, "step a comes after itself"),
    (lambda seq: seq.step(after="mail")(mail), "step mail comes after itself"),
    (behind_optional, "step a is required and comes after b, which is optional; make both of them optional"),
    (behind_nothing, "step mail is after charged, which is no step; there are charge, mail"),
    (too_many, "step s64 is one too many: at most 64 are allowed"),
    (lambda seq: seq.step(wait), "wait is a coroutine function; this client calls plain functions only"),
    (lambda seq: seq.step(lines), "lines is a generator function"),
    (lambda seq: seq.step(three), "can't be called with the message, nor with the message and the step"),
    (lambda seq: seq.step("paid")(mail), "step mail is for kind 'paid', and the queue has no kind_by; name the field"),
    (handler_then_step, "a queue has a handler or steps, not both: charge and a handler were registered"),
    (step_then_handler, "a queue has a handler or steps, not both: charge and a handler were registered"),
    (check_of_automatic, "step mail is not once, so it needs no check; add once=True, or leave it"),
    (two_checks, "step charge has a check already"),
    (odd_check, "check of step charge tests.unit.test_steps_declared.wait is a coroutine function"),
    (lambda seq: seq.step(name="")(mail), "step name '' must be 1 to 100 printable characters"),
    (lambda seq: seq.step(name="a\n")(mail), "step name 'a\\n' must be"),
    (lambda seq: seq.step(name="(handler)")(mail), "(handler) stands for the code around the steps"),
    (lambda seq: seq.step(order="first")(mail), "step mail: order='first' must be a whole number"),
    (lambda seq: seq.step(attempts=0)(mail), "step mail: attempts=0 must be a whole number from 1 to 9999"),
    (lambda seq: seq.step(once="yes")(mail), "step mail: once='yes' must be True or False"),
    (lambda seq: seq.step(after=3)(mail), "step mail: after=3 must be the name of a step, or a list of names"),
    (lambda seq: seq.step(retry_on=ValueError)(mail), "retry_on=<class 'ValueError'> must be a sequence"),
    (
        lambda seq: seq.step(retry_on=[ValueError], never_retry=["ValueError"])(mail),
        "step mail: ValueError stands in retry_on and in never_retry; leave it in one",
    ),
]


@pytest.mark.parametrize(("register", "said"), REFUSED, ids=range(len(REFUSED)))
def test_what_is_refused_is_said_in_one_sentence(register: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(said)) as refused:
        register(queue())
    assert "\n" not in str(refused.value)


def test_with_kinds_names_are_unique_within_one() -> None:
    seq = queue(kind_by="code")
    seq.step("paid")(mail)
    seq.step("sent")(mail)
    with pytest.raises(ConfigurationError, match="there are two steps mail of kind paid"):
        two_of_one_kind(queue(kind_by="code"))
    with pytest.raises(ConfigurationError, match=r"step mail names no kind, and the queue has kind_by='code'"):
        seq.step(mail)


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


def test_what_is_no_function_is_said() -> None:
    with pytest.raises(HandlerNotFound, match="step 3 is not callable"):
        queue().step(order=1)(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"on_unknown": "wait"}, "on_unknown='wait' must be one of park, dead_letter, drop"),
        ({"on_unresolved": "drop"}, "on_unresolved='drop' must be one of park, dead_letter"),
        ({"kind_by": ""}, "kind_by='' must be the name of a body field"),
        ({"retired": "mail"}, "retired='mail' must be a list of names of steps"),
        ({"missing_wait": -1}, "missing_wait=-1 must be a number of seconds"),
    ],
)
def test_options_are_checked(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(said.replace("missing_wait_s", "missing_wait"))):
        queue(**settings)
