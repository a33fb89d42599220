"""What errors say: each code has a text, made of its fields, and an error survives a pickle."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import pytest

import sequencer
from sequencer.errors import Coded, GroupBusy, HandlerTimeout, IdConflict, QueueFull, Retry, SequencerError
from sequencer.texts.answers import ANSWERS
from sequencer.texts.refusals import REFUSALS
from sequencer.texts.templates import fill
from sequencer.values.message import Refused

ROOT = Path(sequencer.__file__).parent


class Shown(str):
    """A field of any name: it takes every format."""

    def __format__(self, _spec: str) -> str:
        return "shown"


class Known(dict[str, Any]):
    """Fields, with all that a text may ask for."""

    def __missing__(self, name: str) -> Any:
        return 9.0 if name.endswith("_s") else Shown("shown")

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name.islower() else default


FIELDS: dict[str, Any] = {
    "status": -9,
    "since": 1e9,
    "last_until": 1e9,
    "group": ("1002", "a b"),
    "refused": [Refused(3, IdConflict(id="m1", group=("g",)))],
    "questions": [{"step": "pay", "state": state, "at": 1e9, "error": "no"} for state in ("started", "failed")],
}


def test_each_code_has_a_text_made_of_its_fields() -> None:
    for code, wording in [*REFUSALS.items(), *ANSWERS.items()]:
        text = fill(wording, Known(FIELDS))
        assert " " in text, code
        assert "{" not in text.replace("~{NAMESPACE", ""), f"a field that is not filled in: {code}"


def test_a_code_that_is_raised_is_listed() -> None:
    raised = {
        code
        for path in ROOT.rglob("*.py")
        for code in re.findall(r'\b[A-Z]\w+\(\s*"([a-z_]+)",\s*(?:\*\*|\w+=)', path.read_text())
    }
    known = {kind.code for kind in SequencerError.__subclasses__()}
    assert "group_changed" in raised
    assert {code for code in raised if "_" in code} - {*REFUSALS} - known == set()


def test_an_error_has_the_code_of_its_class_or_its_own() -> None:
    assert (GroupBusy().code, GroupBusy("group_changed", group=("g",)).code) == ("group_busy", "group_changed")
    assert str(GroupBusy("group_changed", group=("g", "h i"))).startswith("group g 'h i' was changed")
    assert str(GroupBusy()) == (GroupBusy.__doc__ or "").strip()


@pytest.mark.parametrize(
    "error",
    [
        IdConflict(id="m1", group=("g",)),
        QueueFull("full"),
        SequencerError(),
        HandlerTimeout(limit_s=5.0),
        Retry("r", 3),
    ],
)
def test_an_error_survives_a_pickle(error: Coded) -> None:
    back = pickle.loads(pickle.dumps(error))
    assert (type(back), back.code, back.fields, str(back)) == (type(error), error.code, error.fields, str(error))
    assert vars(back) == vars(error)


def test_a_reason_is_shown_as_it_is_and_a_class_of_the_user_has_the_code_of_ours() -> None:
    class Later(Retry): ...

    assert [str(Later(reason)) for reason in ("busy", "retry", "a\nb", "")] == [
        "busy",
        "retry",
        "a\nb",
        REFUSALS["retry"],
    ]
    assert Later("busy").code == "retry"
