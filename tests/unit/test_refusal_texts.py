"""What errors say: each code has a text, made of its fields, and an error survives a pickle."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import pytest

import sequencer
from sequencer.errors import ConfigurationError, GroupBusy, IdConflict, QueueFull, SequencerError
from sequencer.texts.answers import ANSWERS
from sequencer.texts.refusals import REFUSALS
from sequencer.texts.templates import fill
from sequencer.values.message import Refused

ROOT = Path(sequencer.__file__).parent
TEXTS = "queue namespace id error owner head what state action by question value url scheme kind tried install path"
TEXTS += " binary said log token entry stream name server meant reason variable"
TEXTS += " type field option within has protocol step to"
TEXTS += " step role function parameter after field signal lost_owner mark"
TEXTS += " wanted items choices one other needed line module outage app"
TEXTS += " version policy text why rest file"
NUMBERS = "number stored replicas confirmed wait_ms most pid count before now shards more low high max n"
NUMBERS += " attempt attempts last leases runs size here effects handled failed"
NUMBERS += " column columns line from_line results first others done total perhaps messages dead since of asked"
FLAGS = "replaces is_dead dead_letter is_paused is_repeatable has_ids is_piped is_optional was_fit is_pooled"
TEXTS += " command directory table shell stderr"
NUMBERS += " status"


class Known(dict[str, Any]):
    """Fields, of which each that a text asks for has to be there."""

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name.islower() else super().get(name, default)


FIELDS: dict[str, Any] = {
    **dict.fromkeys(TEXTS.split(), "shown"),
    **dict.fromkeys(NUMBERS.split(), 7),
    **dict.fromkeys(("held_s", "within_s", "limit_s", "wait_s", "reply_s", "after_s"), 9.0),
    **dict.fromkeys(("reaches_s", "window_s", "next_probe_s"), 9.0),
    **dict.fromkeys(FLAGS.split(), False),
    "group": ("1002", "a b"),
    "namespace": "sequencer",
    "score": "9.0",
    "refused": [Refused(3, IdConflict(id="m1", group=("g",)))],
    "is_kept": True,
    "found": {"shop:handle": "function"},
    "steps": ["charge", "ship"],
    "kinds": ["paid", "sent"],
    "options": ["retry_on", "declined"],
    "questions": [{"step": "pay", "state": state, "at": 1e9, "error": "no"} for state in ("started", "failed")],
    "rights": ["+zadd"],
    "known": ["orders", "mails"],
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
    assert str(ConfigurationError("a whole sentence")) == "a whole sentence"


@pytest.mark.parametrize(
    "error",
    [IdConflict(id="m1", group=("g",)), GroupBusy("group_changed", group=("g",)), QueueFull("full"), SequencerError()],
)
def test_an_error_survives_a_pickle(error: SequencerError) -> None:
    back = pickle.loads(pickle.dumps(error))
    assert (type(back), back.code, back.fields, str(back)) == (type(error), error.code, error.fields, str(error))
    assert (back.id, back.group) == (error.id, error.group)
