"""How the fault test of input looks for what breaks: a target is a strategy of inputs and a check, and a seed is a
batch.

A check fails with `Wrong` where a rule does not hold, and with any other exception where the product let out one that
is not its own. What was found once, by kind and place, is passed over afterwards, so that it does not hide the next.
"""

from __future__ import annotations

import reprlib
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import hypothesis
from hypothesis import Phase

from sequencer.errors import SequencerError

MAX_SHOWN = 300
"""Characters of an input in a problem."""
MAX_PROBLEMS = 200
"""More of them say nothing new."""


class Wrong(Exception):
    """A rule does not hold for this input: the first argument names the rule, the second says how."""

    def __init__(self, rule: str, how: str = "") -> None:
        self.rule = rule
        super().__init__(f"{rule}: {how}" if how else rule)


class Several(Exception):
    """More than one thing broke at one input; each is judged for itself."""

    def __init__(self, errors: Sequence[Exception]) -> None:
        self.errors = errors
        super().__init__(f"{len(errors)} errors")


class _Repr(reprlib.Repr):
    """Short, and also for integers that Python refuses to write."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = 120
        self.maxlevel, self.maxdict, self.maxlist = 6, 8, 8

    def repr_int(self, x: int, level: int) -> str:
        return repr(x) if x.bit_length() < 200 else f"<an int of {x.bit_length()} bits>"

    def repr_bytes(self, x: bytes, level: int) -> str:
        return repr(x) if len(x) <= MAX_SHOWN else f"{x[:120]!r}... of {len(x)} bytes"


def shown(value: Any) -> str:
    """The input as a problem shows it."""
    return _Repr().repr(value)[:MAX_SHOWN]


def where(error: BaseException) -> str:
    """The deepest line of the product in the traceback, as file:line; our own checks do not count."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [
        frame
        for frame in frames
        if ("/sequencer/" in frame.filename or "/cli/" in frame.filename)
        and "/faults/" not in frame.filename
        and "site-packages" not in frame.filename
    ]
    frame = ours[-1] if ours else frames[-1]
    return f"{frame.filename.rpartition('/')[2]}:{frame.lineno}"


def refusal(run: Callable[[], Any]) -> SequencerError | None:
    """The error of our own that this ended with, or None; every other exception goes on."""
    try:
        run()
    except SequencerError as error:
        return error
    return None


@dataclass(frozen=True, slots=True)
class Target:
    """What is fed with inputs: a hypothesis strategy, and a check that raises for an input which breaks something."""

    name: str
    inputs: Any
    check: Callable[[Any], str | None]
    """Says what took effect, if anything did: "value refused", "record changed"."""
    examples: int = 100
    """Inputs in a batch, which one seed stands for."""
    shrinks: bool = True
    """Whether to look for the smallest input; not where a check takes long."""


@dataclass(slots=True)
class Findings:
    """What was found so far: problems by kind and place, and how many inputs each target was given."""

    tried: dict[str, int] = field(default_factory=dict)
    effects: Counter[str] = field(default_factory=Counter)
    """What took effect -> how often."""
    problems: dict[tuple[str, str, str], str] = field(default_factory=dict)

    def key(self, target: str, error: BaseException) -> tuple[str, str, str]:
        place = error.rule if isinstance(error, Wrong) else where(error)
        return target, type(error).__name__, place

    def add(self, target: str, value: Any, error: BaseException, repeat: str) -> None:
        name, kind, place = self.key(target, error)
        said = f"{error}" if isinstance(error, Wrong) else f"{kind}: {error} (at {place})"
        notes = "".join(f", {note}" for note in getattr(error, "__notes__", ()))
        text = f"{target}: {shown(value)} -> {said[:MAX_SHOWN]}{notes}; repeat: {repeat}"
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.setdefault((name, kind, place), text)


def explore(target: Target, seed: int, findings: Findings, *, attempts: int = 4) -> None:
    """Give the target one batch of inputs and note what breaks it; the same seed gives the same batch.

    A batch ends at what breaks it first; it is then given again, at most `attempts` times, for what comes after.
    """
    for _ in range(attempts):
        if not _explore_once(target, seed, findings):
            return


def _explore_once(target: Target, seed: int, findings: Findings) -> bool:
    settings: Any = hypothesis.settings(
        max_examples=target.examples,
        database=None,
        deadline=None,
        suppress_health_check=list(hypothesis.HealthCheck),
        report_multiple_bugs=False,
        print_blob=False,
        verbosity=hypothesis.Verbosity.quiet,
        phases=(Phase.generate, Phase.shrink) if target.shrinks else (Phase.generate,),
    )
    last: list[tuple[Any, BaseException]] = []

    def attempt(value: Any) -> None:
        findings.tried[target.name] = findings.tried.get(target.name, 0) + 1
        try:
            if effect := target.check(value):
                findings.effects[effect] += 1
        except Exception as error:
            for one in error.errors if isinstance(error, Several) else (error,):
                if findings.key(target.name, one) not in findings.problems:
                    last[:] = [(value, one)]
                    raise one from None

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", hypothesis.errors.HypothesisWarning)  # of long texts in our strategies
            given: Any = hypothesis.given(target.inputs)
            hypothesis.seed(seed)(settings(given(attempt)))()
    except Exception:
        if not last:
            raise  # of the strategy itself: the fault test is broken, not the product
        value, error = last[0]
        findings.add(target.name, value, error, f"python -m tests.faults input --seed {seed}")
    return bool(last)
