"""A user's app under `kill_everywhere`: nothing is found in a handler that is idempotent, and the point and passage in
one that is not.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sequencer.errors import ConfigurationError
from sequencer.testing.kill_everywhere import KillReport, kill_everywhere

pytestmark = pytest.mark.nightly

BANK = '''"""An app of a user: each message charges a card, and confirms it."""

import json, os

from sequencer import Sequencer
from sequencer.testing.points import kill_here

seq = Sequencer("bank", group_by=("order",), id_by="id", score_by="n", backoff=0.01)


def charges():
    return [json.loads(line) for line in open("charges", encoding="utf-8")] if os.path.exists("charges") else []


def charge(message, is_known):
    if not is_known:
        with open("charges", "a", encoding="utf-8") as ledger:
            print(json.dumps(message.id), file=ledger)


@seq.handler
def careful(message):
    charge(message, message.id in charges())
    kill_here("charged")


careless_seq = Sequencer("bank", group_by=("order",), id_by="id", score_by="n", backoff=0.01)


@careless_seq.handler
def careless(message):
    charge(message, False)
    kill_here("charged")


elsewhere = Sequencer("bank", "redis://127.0.0.1:1/0", group_by=("order",), id_by="id", score_by="n")
elsewhere.handler(careful)
'''
EVENTS = [{"order": 1, "id": "e1", "n": 1}, {"order": 1, "id": "e2", "n": 2}]


@pytest.fixture
def bank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of an app's module in the working directory; its ledger is the file `charges`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    name = f"bank_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(BANK)
    return name


def forget() -> None:
    Path("charges").unlink(missing_ok=True)


def check() -> None:
    """Each message was charged once."""
    charged = sorted(json.loads(line) for line in Path("charges").read_text().splitlines())
    assert charged == ["e1", "e2"], f"charged {charged}"


def test_an_idempotent_handler_is_clean_and_a_point_that_does_not_exist_is_not(bank: str) -> None:
    points = ["charged", "chraged"]
    report = kill_everywhere(f"{bank}:seq", EVENTS, points=points, before=forget, check=check, most=1)
    assert report.passages == {"charged": 1}
    assert report.kills == len(report.recovery_s) == 1
    assert report.recovery_s[0] > 0.9, "a successor waits for the lease of the dead"
    assert report.duplicates == 0, "no run that ended was begun again"
    assert report.problems == [
        "point 'chraged' was never reached; the handler passes: charged, handler:after, handler:before"
    ]
    assert not report.is_clean


def test_a_report_without_a_kill_is_not_clean() -> None:
    assert KillReport(kills=1).is_clean
    assert not KillReport().is_clean


def test_a_handler_that_charges_twice_is_found(bank: str) -> None:
    report = kill_everywhere(f"{bank}:careless_seq", EVENTS, points=["charged"], before=forget, check=check, most=2)
    assert not report.is_clean
    assert report.problems == [
        "killed at charged, passage 1: check: charged ['e1', 'e1', 'e2']",
        "killed at charged, passage 2: check: charged ['e1', 'e2', 'e2']",
    ]


def test_an_app_with_a_server_of_its_own_is_refused(bank: str) -> None:
    report = kill_everywhere(f"{bank}:elsewhere", EVENTS, points=[])
    assert "leave redis= to SEQUENCER_REDIS" in str(report.problems)


def test_a_function_needs_a_queue(bank: str) -> None:
    with pytest.raises(ConfigurationError, match="pass queue="):
        kill_everywhere(f"{bank}:careful", EVENTS)
