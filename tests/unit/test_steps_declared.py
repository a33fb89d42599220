"""What a program registers as steps: what is taken, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from sequencer import Message, Sequencer
from sequencer.drain.steps.declared import Step
from sequencer.errors import ConfigurationError

from ..support.refused import refused


def queue(**settings: Any) -> Sequencer:
    return Sequencer("gifts", "redis://127.0.0.1:1", **settings)


def charge(message: Message, step: Any) -> Any:
    return {"payment": step.key}


def mail(message: Message) -> None: ...


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


TWO_LISTS = {"never_retry": [ValueError], "retry_on": ["ValueError"]}
REFUSED: list[tuple[Any, str, dict[str, Any]]] = [
    (steps({}, {"order": 2}), "two_steps", {"step": "mail"}),
    (steps({"name": "a", "after": "b"}, {"name": "b", "after": "a"}), "after_itself", {"step": "a"}),
    (steps({"after": "mail"}), "after_itself", {"step": "mail"}),
    (
        steps({"name": "a", "after": "b"}, {"name": "b", "optional": True}),
        "after_optional",
        {"step": "a", "after": "b"},
    ),
    (steps({"after": "paid"}, {"name": "pay"}), "after_unknown", {"after": "paid", "steps": ["mail", "pay"]}),
    (steps(*({"name": f"s{number}"} for number in range(65))), "one_step_too_many", {"step": "s64", "most": 64}),
    (steps({}, function=lambda: None), "parameters_invalid", {"role": "step"}),
    (steps({"kind": "paid"}), "kind_mismatch", {"kind": "paid"}),
    (handler_and_step, "handler_and_steps", {"steps": ["charge"]}),
    (lambda seq: seq.step(mail).check(mail), "option_needed", {"name": "mail.check"}),
    (two_checks, "two_checks", {"step": "charge"}),
    (lambda seq: seq.step(once=True)(charge).check(lambda: None), "parameters_invalid", {"role": "check"}),
    (steps({"name": "a\n"}), "step_name_invalid", {"name": "a\n"}),
    (steps({"name": "(handler)"}), "step_name_invalid", {}),
    (steps({"once": "yes"}), "flag_invalid", {"name": "mail.once", "value": "yes"}),
    (steps({"after": 3}), "after_invalid", {"step": "mail", "value": 3}),
    (steps({"declined": [ValueError]}), "option_needed", {"name": "mail.declined"}),
    (steps({"once": True, "declined": [ValueError], "never_retry": [ValueError]}), "listed_twice", {}),
    (steps(TWO_LISTS), "listed_twice", {"name": "ValueError"}),
]


@pytest.mark.parametrize(("register", "code", "fields"), REFUSED, ids=[code for _, code, _ in REFUSED])
def test_what_does_not_fit_is_refused(register: Any, code: str, fields: dict[str, Any]) -> None:
    seq = queue()
    with refused(ConfigurationError, code, **fields):
        assert register(seq) or seq.registered_handler


@pytest.mark.parametrize("options", [{"order": "first"}, {"attempts": 0}])
def test_a_value_that_does_not_fit_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        steps(options)(queue())


def test_with_kinds_names_are_unique_within_one() -> None:
    seq = queue(kind_by="code")
    steps({"kind": "paid"}, {"kind": "sent"})(seq)
    with refused(ConfigurationError, "two_steps", step="mail", kind="paid"):
        steps({"kind": "paid"})(seq)
    with refused(ConfigurationError, "kind_mismatch", step="mail"):
        seq.step(mail)


@pytest.mark.parametrize(
    "settings",
    [{"on_unknown": "wait"}, {"on_unresolved": "drop"}, {"kind_by": ""}, {"retired": "mail"}, {"missing_wait": -1}],
)
def test_options_are_checked(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
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
