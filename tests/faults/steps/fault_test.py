"""Real consumers, killed before and after each step, and where its start or end is noted; effects are counted outside.

Five steps a message, three groups of two. A step may only have another number of effects than one as its kill explains:

- automatic: the one that was killed behind its effect, or the last one of a message whose acknowledgement was on its
  way, has a second one under the same key;
- once: never. Where an end is not known a person is asked, once. Questions are answered by `done` and `again` in turns,
  whatever is true: `done` brings no effect, `again` one more, under another key;
- once with a check: never, and nobody is asked.
"""

from __future__ import annotations

import json
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from sequencer import Sequencer
from sequencer.testing import read_events
from sequencer.testing.kill_everywhere import KillReport, _Run, _Runs, _Setup

from ..report import Result, Scale
from . import app
from .app import CONTROL, EFFECTS, ITEMS, NAMES, Effect

VARIANTS = ("automatic", "once", "checked")
POINTS = [f"step:{name}:{when}" for name in NAMES for when in ("before", "after", "saved")]
RIDES = ("automatic", f"step:{NAMES[-1]}:saved")
"""The end of the last automatic step has no note of its own: it rides with the acknowledgement."""
SMALL = ("step:a:saved", "step:b:after", "step:d:before")
"""Of a slice, at their first passage."""
MOST = {"smoke": 1, "ci": 1, "nightly": 100}
"""The highest passage."""
LEASE_S, TIMEOUT_S = 3.0, 120.0
"""A consumer that stands still for a lease, on a machine that is busy, repeats steps that no kill explains."""


def run(scale: Scale, *, only: str | None = None) -> Result:
    """Kill at each passage of each point, or at a few. Raises ValueError where no variant is called `only`."""
    if only not in (None, *VARIANTS):
        raise ValueError(f"only={only!r} must be one of {', '.join(VARIANTS)}")
    chosen = [name for name in VARIANTS if only in (None, name)]
    points = POINTS if scale == "nightly" else SMALL
    ended = threading.Event()
    with ThreadPoolExecutor(len(chosen)) as pool:  # they wait for leases
        try:
            parts = [pool.submit(killed, name, points, MOST[scale], ended=ended) for name in chosen]
            found = {name: part.result() for name, part in zip(chosen, parts, strict=True)}
        finally:
            ended.set()
    kills = sum(one.report.kills for one in found.values())
    return Result(
        name="steps",
        command=f"python -m tests.faults steps --scale {scale}{f' --only {only}' if only else ''}",
        runs=kills,
        unit="kills",
        messages=sum(one.runs for one in found.values()) * len(ITEMS),
        duplicates=sum(one.report.duplicates for one in found.values()),
        duplicates_allowed=kills * len(ITEMS),
        recovery_s=tuple(took for one in found.values() for took in one.report.recovery_s),
        faults={"kill": kills},
        figures={f"{name}: {what}": count for name, one in found.items() for what, count in one.figures().items()},
        problems=[f"{name}: {problem}" for name, one in found.items() for problem in one.problems(name)],
    )


@dataclass
class Killed:
    """What the runs of one variant showed."""

    report: KillReport
    runs: int = 0
    passes: int = 0
    repeats: int = 0
    again: int = 0

    def problems(self, variant: str) -> list[str]:
        """Of the runs, and of who was asked: behind a start that was noted, and where nothing else knows its end."""
        asks = variant == "once"
        asked = [] if bool(self.report.questions) == asks else [f"{self.report.questions} questions were asked"]
        return [*self.report.problems, *asked]

    def figures(self) -> dict[str, int]:
        return {
            "kills": self.report.kills,
            "passes": self.passes,
            "effects above one": self.repeats,
            "of these by `again`": self.again,
            "questions": self.report.questions,
        }


def killed(
    variant: str, points: Sequence[str], most: int, control: str = "", *, ended: threading.Event | None = None
) -> Killed:
    """A run without a fault, and runs with a kill at each passage of these points, until `ended`."""
    with tempfile.TemporaryDirectory(prefix="sqs-") as directory:
        file = Path(directory) / "effects"
        environment = {EFFECTS: str(file), CONTROL: control}
        setup = Trial(f"{app.__name__}:{variant}", [*ITEMS], None, LEASE_S, 1, TIMEOUT_S, environment, file)
        runs = _Runs(setup, before=None, check=None)
        found = Killed(runs.report)
        for point in ["", *(point for point in points if (variant, point) != RIDES)]:
            for passage in range(1, most + 1):
                if ended and ended.is_set():
                    return found
                one = runs.run(point, passage)
                found.runs, found.passes = found.runs + 1, found.passes + setup.passes
                found.repeats, found.again = found.repeats + setup.repeats, found.again + setup.again
                if not one.is_killed:
                    break
            if point and point not in runs.report.passages:
                runs.report.problems.append(f"{point} was never reached")
    return found


class Answer(NamedTuple):
    word: str
    effects: int
    """How many there were when it was given."""


@dataclass
class Trial(_Setup):
    """Runs whose effects are judged, and whose questions are answered."""

    file: Path
    answered: int = 0
    """Over all runs."""
    answers: dict[tuple[str, str], Answer] = field(default_factory=dict)
    """(message, step) -> what a person said of it in this run."""
    passes: int = 0
    repeats: int = 0
    wrong: list[str] = field(default_factory=list)

    @property
    def again(self) -> int:
        return sum(answer.word == "again" for answer in self.answers.values())

    def run(self, point: str, passage: int) -> _Run:
        self.file.unlink(missing_ok=True)
        self.answers, self.wrong = {}, []
        run = super().run(point, passage)
        done = self.effects()
        self.repeats = len(done) - len({(one.id, one.step) for one in done})
        run.questions = len(self.answers)
        killed_behind = point.split(":")[1] if run.is_killed and point.endswith(":after") else ""
        run.problems += [*self.wrong, *wrong(self.app.endswith(":automatic"), killed_behind, done, self.answers)]
        return run

    def effects(self) -> list[Effect]:
        return [Effect(*json.loads(line)) for line in self.file.read_text(encoding="utf-8").splitlines()]

    def _consume(self, seq: Sequencer, url: str, directory: Path, armed: str) -> tuple[int, str]:
        """Until nothing is left but questions; they are answered, and then until nothing is left."""
        status, said = super()._consume(seq, url, directory, armed)
        if parked := [*seq.parked()]:
            counts = Counter((one.id, one.step) for one in self.effects())
            told = said.count("group parked")
            if told != len(parked):
                self.wrong.append(f"{len(parked)} groups are parked, and {told} were told of")
            for info in parked:
                (message,) = seq.peek(info.group, limit=1)
                noted = seq.steps(info.group)
                unknown = [step.name for step in noted.steps if step.state == "started"] if noted else []
                if not unknown:
                    self.wrong.append(f"group {info.group} is parked without a question")
                self.answered += 1
                word = "again" if self.answered % 2 else "done"
                self.answers |= {(message.id, step): Answer(word, counts[message.id, step]) for step in unknown}
                if word == "again":
                    seq.resume(info.group, again=unknown)
                else:
                    seq.resume(info.group, done=dict.fromkeys(unknown))
            status, more = super()._consume(seq, url, directory, armed)
            said += more
        runs = read_events(sorted(directory.glob("runs-*.ndjson")))
        self.passes = sum(event.what == "begun" for event in runs)
        return status, said


def wrong(
    is_automatic: bool, killed_behind: str, done: list[Effect], answers: dict[tuple[str, str], Answer]
) -> Iterator[str]:
    """Which effects no kill and no answer explains."""
    keys: dict[tuple[str, str], list[str]] = {(str(item["id"]), step): [] for item in ITEMS for step in NAMES}
    for one in done:
        keys[one.id, one.step].append(one.key)
    repeated = 0
    for name, known in keys.items():
        answer, is_last = answers.get(name), name[1] == NAMES[-1]
        least = most = 1
        if answer is not None:
            least = most = answer.effects + (answer.word == "again")
        elif is_automatic and (is_last or name[1] == killed_behind):
            most = 2
            repeated += not is_last and len(known) == 2
        if not least <= len(known) <= most:
            yield f"{'/'.join(name)} took effect {len(known)} times, with {least} to {most} explained"
        if len({*known}) > most or (is_automatic and len({*known}) > 1):
            yield f"{'/'.join(name)} has {len({*known})} keys"
    if repeated > 1:
        yield f"{repeated} steps were repeated behind one kill"
    for item in ITEMS:
        ran = [step for step, _ in groupby(one.step for one in done if one.id == item["id"])]
        if is_automatic and ran != [*NAMES]:
            yield f"{item['id']} ran {ran}"
