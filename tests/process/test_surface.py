"""The public surface is what `surface.json` says; after a change that is meant: `python -m tests.process.surface`."""

from __future__ import annotations

from typing import Any

import pytest

import sequencer
import sequencer.errors
from sequencer import Lease, Sequencer
from sequencer.cli import app as command_line

from . import surface


def test_the_public_surface_is_the_one_that_was_agreed_on() -> None:
    found = surface.differences(surface.read(), surface.surface())
    assert not found, "\n".join(["the public surface changed:", *found, f"if that is meant: {surface.REWRITE}"])


def test_nothing_is_described_as_empty() -> None:
    lines = surface.surface()
    assert {part: len(some) for part, some in lines.items() if len(some) < 10} == {}
    assert any(line.startswith("sequencer dead purge --yes ") for line in lines["commands"])


def test_a_changed_signature_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    def pause(self: Sequencer, group: Any = None, *, seconds: float = 0.0) -> bool:
        return False

    before = surface.surface()
    monkeypatch.setattr(Sequencer, "pause", pause)
    assert surface.differences(before, surface.surface()) == [
        "--- surface.json",
        "+++ the code",
        "-names: Sequencer.pause(group: Group | None = None) -> bool",
        "+names: Sequencer.pause(group: Any = None, *, seconds: float = 0.0) -> bool",
    ]


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ((sequencer, "__all__", ["Sequencer"]), "-names: Receipt: named tuple"),
        ((command_line, "PARKED", 9), "+exit codes: command line PARKED = 9"),
        (
            (command_line.app, "registered_groups", []),
            "-commands: sequencer server stop: Stop it; its data stays.",
        ),
        ((surface, "acl_rules", lambda *_: ["~*", "+get"]), "+rights: append, jobs: ~*"),
        ((surface, "EVENTS", {}), "-events: output closed (INFO): "),
    ],
)
def test_each_part_can_differ(change: tuple[Any, str, Any], line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = surface.surface()
    monkeypatch.setattr(*change)
    assert line in surface.differences(before, surface.surface())


def test_the_module_of_a_thing_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    before = surface.surface()
    monkeypatch.setattr(Lease, "__module__", "sequencer.client")
    assert surface.differences(before, surface.surface()) == []
    assert not [line for line in before["names"] if "sequencer." in line]


def test_few_names_are_public_and_those_that_moved_are_there_for_one_version_more() -> None:
    assert len(sequencer.__all__) <= 30
    found = vars(sequencer.errors).items()
    kinds = {name for name, value in found if isinstance(value, type) and issubclass(value, BaseException)}
    assert kinds == set(sequencer.errors.__all__), "every error is listed"
    since = {
        "AnswerNeeded",
        "AnswerRefused",
        "CommandFailed",
        "CommandNotFound",
        "CommandStopped",
        "EffectsNoted",
        "HandlerTimeout",
        "LeaseExpired",
        "StepFailed",
        "StepMissing",
        "StepResultInvalid",
        "StepUnknown",
        "TooLate",
        "Undecodable",
        "WrongSignal",
    }
    assert all(getattr(sequencer, name) is getattr(sequencer.errors, name) for name in kinds - since)
    assert sequencer.Proof is sequencer.AuditReport
