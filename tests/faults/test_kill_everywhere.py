"""Apps under `kill_everywhere`: an idempotent handler and steps are clean; a handler that is not, and broken steps, are
found with point and passage.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from sequencer.errors import ConfigurationError
from sequencer.testing.kill_everywhere import KillReport, kill_everywhere

from ..support.refused import refused

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


batches = Sequencer("bank", group_by=("order",), id_by="id", score_by="n", backoff=0.01)


@batches.handler(batch=2)
def charge_all(batch):
    for message in batch:
        if message.id == "e2" and message.attempt == 1:
            raise ValueError("once more")
        charge(message, message.id in charges())
        kill_here("charged")
        batch.done(message)


elsewhere = Sequencer("bank", "redis://127.0.0.1:1/0", group_by=("order",), id_by="id", score_by="n")
elsewhere.handler(careful)
'''
EVENTS = [{"order": 1, "id": "e1", "n": 1}, {"order": 1, "id": "e2", "n": 2}]


Write = Callable[[str], str]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes an app's module into the working directory; its name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(source: str) -> str:
        name = f"app_{tmp_path.name.replace('-', '_')}"
        (tmp_path / f"{name}.py").write_text(source)
        return name

    return write


@pytest.fixture
def bank(write: Write) -> str:
    """The name of its module; its ledger is the file `charges`."""
    return write(BANK)


@pytest.fixture
def gifts(write: Write) -> str:
    return write(GIFTS)


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


def test_batches_of_an_idempotent_handler_are_clean(bank: str) -> None:
    report = kill_everywhere(f"{bank}:batches", EVENTS, before=forget, check=check)
    assert report.is_clean, report.problems
    assert report.passages == {"charged": 2, "handler:before": 2, "handler:after": 1}


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
    with refused(ConfigurationError, "queue_missing", app=f"{bank}:careful"):
        kill_everywhere(f"{bank}:careful", EVENTS)


# -- steps ------------------------------------------------------------------------------------------------------------

GIFTS = '''"""Three steps a message; what each did is a line of the file `effects`. CONTROL takes out a rule."""

import json, os

from sequencer import Sequencer
from sequencer.drain.steps.rules import View
from sequencer.drain.steps.runner import StepRunner


def effect(message, step):
    with open("effects", "a", encoding="utf-8") as file:
        print(json.dumps([message.id, step.name, step.key]), file=file)
    return step.name


def look(message, step):
    done = [json.loads(line) for line in open("effects")] if os.path.exists("effects") else []
    return step.name if step.key in [key for _, _, key in done] else None


def app(once, is_checked=False):
    seq = Sequencer("gifts", group_by=("order",), id_by="id", score_by="n", backoff=0.01, max_attempts=9)
    for order, name in enumerate("abc"):
        step = seq.step(name=name, order=order, once=once)(effect)
        if is_checked:
            step.check(look)
    return seq


def dropped(self, *asked, **about):
    yield from ()
    return 1


automatic, once, checked = app(False), app(True), app(True, True)
is_open = View.is_open
if os.environ.get("CONTROL") == "note dropped":
    StepRunner.note = dropped
elif os.environ.get("CONTROL") == "once as automatic":
    View.is_open = lambda self, step: is_open(self, step) or self.entry(step.name).state == "started"
'''
POINTS = ["step:a:saved", "step:b:before", "step:b:after", "step:c:after", "step:c:saved"]


def killed(gifts: str, variant: str, points: list[str], control: str = "") -> KillReport:
    """A step that is automatic may run again where it was killed, and the last one: its end rides with the ack."""

    def check_effects() -> None:
        done = [json.loads(line) for line in Path("effects").read_text().splitlines()]
        counts = Counter((id, step) for id, step, _ in done)
        assert len({key for *_, key in done}) == len(counts), "a step has two keys"
        repeated = [name for name, count in counts.items() if count > 1]
        assert not [name for name in repeated if variant != "automatic"], f"{repeated} took effect again"
        assert len([name for name in repeated if name[1] != "c"]) <= 1, f"{repeated} were repeated behind one kill"
        assert len(counts) == 6 or variant == "once", f"{6 - len(counts)} steps never took effect"

    def before() -> None:
        Path("effects").unlink(missing_ok=True)

    return kill_everywhere(
        f"{gifts}:{variant}", EVENTS, points=points, before=before, check=check_effects, lease=2.0, most=1,
        env={"CONTROL": control},
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("variant", ["automatic", "once", "checked"])
def test_steps_run_as_their_kind_allows(gifts: str, variant: str) -> None:
    points = POINTS[:-1] if variant == "automatic" else POINTS
    report = killed(gifts, variant, points)
    assert report.problems == []
    assert report.kills == len(points)
    assert bool(report.questions) == (variant == "once")


@pytest.mark.parametrize(
    ("variant", "control", "wrong"),
    [
        ("automatic", "note dropped", "were repeated behind one kill"),
        ("once", "once as automatic", "took effect again"),
    ],
)
def test_a_rule_that_is_taken_out_is_found(gifts: str, variant: str, control: str, wrong: str) -> None:
    assert wrong in str(killed(gifts, variant, ["step:b:after"], control).problems)
