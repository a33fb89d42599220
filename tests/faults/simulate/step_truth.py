"""What the steps of a simulation really did, outside of the queue, and what is wrong with it.

Effects are counted here, where steps are called. Of the server only this is taken: which writes it carried out, under
which token, and what persons said in them. Rules, for a step of a message:

  - One that returned is not called again once its end is in the server, or once another step began behind it.
  - A `once` step is called again only after somebody said that nothing had happened: the step itself (Retry, Park), its
    check, or a person. Its effects are one at most, but for those of a process that stood still when that was said.
  - A step begins once all that its pass knows is in the server; a `once` step, behind the acknowledgements in front.
  - It has the key and the attempts that it should have, and gets what the steps before it returned.
  - A message is acknowledged when its required steps are done, and given up when no question is open, or with it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from sequencer.values.message import Message, StepCall

from ...support.steps_model.declared import App, Step

Name = tuple[str, str, int]
"""Group as in its key, id, stamp."""
DIGITS = 11
"""Before the JSON of a ledger in a record."""


@dataclass(slots=True, eq=False)
class Run:
    """One call of a step."""

    name: Name
    step: Step
    key: str
    token: int
    result: Any
    """What it returns, if it does."""
    is_over: bool = False
    error: str = ""
    has_effect: bool = False
    is_noted: bool = False
    """Its end is in the server."""
    is_followed: bool = False
    """Another step of its pass began after it."""
    is_undone: bool = False
    """Somebody said after it that nothing had happened."""

    @property
    def has_returned(self) -> bool:
        return self.is_over and not self.error


class StepTruth:
    """Runs of steps, and what was said of them."""

    def __init__(self, plan: tuple[Step, ...], max_attempts: int, wrong: Callable[[str], None]) -> None:
        self.plan, self.wrong, self.effects = plan, wrong, Counter[str]()
        """How often something happened that a run of many seeds must have shown."""
        self.holders: dict[str, int] = {}
        """Group -> token of its newest lease."""
        self.claimed: dict[tuple[str, int], list[str]] = {}
        """Group and token -> members."""
        self.is_there: Callable[[str, str], bool] = lambda group, member: False
        """Whether the server has this member of a group."""
        self.acted: Counter[str] = Counter()
        """Key -> effects, as a provider counts them: what checks and persons ask."""
        self._limits = {one.name: App(max_attempts=max_attempts).limit(one) for one in plan}
        self._runs: defaultdict[Name, list[Run]] = defaultdict(list)
        self._said: defaultdict[Name, dict[str, Any]] = defaultdict(dict)
        """Results that a person or a check gave."""
        self._found: dict[tuple[Name, str], tuple[int, Any]] = {}
        """What a check found under which token, not in the server yet."""
        self._turns: defaultdict[tuple[Name, str], int] = defaultdict(lambda: 1)
        self._stale_below: defaultdict[tuple[Name, str], int] = defaultdict(int)
        """Runs under tokens below it may have stood still when somebody said that nothing had happened."""
        self._allowed: defaultdict[tuple[Name, str], int] = defaultdict(lambda: 1)
        """How many effects a `once` step may have."""
        self._asked: defaultdict[Name, set[str]] = defaultdict(set)
        """Required `once` steps that began and whose end nobody knows yet."""

    def _of(self, name: Name, step: str) -> Iterator[Run]:
        return (run for run in self._runs[name] if run.step.name == step)

    # -- steps ----------------------------------------------------------------------------------------------------

    def began(self, group: str, step: Step, message: Message, call: StepCall) -> Run:
        """A consumer calls a step."""
        name = group, message.id, message.stamp
        run = Run(name, step, call.key, message.token, {"n": sum(map(len, self._runs.values()))})
        text = f"step {step.name} of {group}/{message.id}"
        for one in self._runs[name]:
            if one.token == run.token and one.is_over and not one.is_noted:
                self.wrong(f"not noted: {text} began before the end of {one.step.name} was in the server")
        is_valid = self.holders.get(group) == message.token
        if is_valid:  # else its lease was lost before, and its effect may overlap
            self._check_turn(run, text)
            self._check_repeat(run, text)
            self._check_call(run, text, call)
        run.is_undone = run.token < self._stale_below[name, step.name]
        for one in self._runs[name]:
            one.is_followed |= one.token == run.token and one.is_over and one.step is not step
        self._runs[name].append(run)
        if is_valid and step.once and not step.optional:
            self._asked[name].add(step.name)
        return run

    def _check_turn(self, run: Run, text: str) -> None:
        step, name = run.step, run.name
        if step.after and not self._is_done(name, step.after, run.token):
            self.wrong(f"before its turn: {text} began, and {step.after} is not done")
        known = {one.step.name for one in self._runs[name]} | {*self._said[name]}
        for place, other in enumerate(self.plan):
            is_before = (other.order, place) < (step.order, self.plan.index(step))
            if is_before and not (other.once or other.after or other.name in known):
                self.wrong(f"before its turn: {text} began, and {other.name} never did")
        group, id, stamp = name
        members = self.claimed[group, run.token]
        before = members[: members.index(f"{stamp:016d}{id}")] if step.once else []
        for member in before:
            if self.is_there(group, member):
                self.wrong(f"order: {text} began, and {member[16:]} in front of it is still in the server")

    def _check_repeat(self, run: Run, text: str) -> None:
        name, step = run.name, run.step.name
        if step in self._said[name]:
            self.wrong(f"ran again: {text} was said to be done")
        for one in self._of(name, step):
            if one.has_returned and (one.is_noted or one.is_followed):
                self.wrong(f"ran again: {text} had returned")
            elif one.step.once and not one.is_undone:
                self.wrong(f"ran again: {text} runs once")
            else:
                self.effects["step retried" if one.error else "step repeated"] += 1

    def _check_call(self, run: Run, text: str, call: StepCall) -> None:
        name, turn = run.name, self._turns[run.name, run.step.name]
        keys = {one.key.partition("#")[0] for one in self._of(name, run.step.name)} | {call.key.partition("#")[0]}
        if len(keys) > 1 or call.key.partition("#")[2] != (str(turn) if turn > 1 else ""):
            self.wrong(f"another key: {text}, turn {turn}, ran under {sorted(keys)}, now {call.key}")
        if call.attempt > self._limits[call.name]:
            self.wrong(f"too often: {text} is tried the {call.attempt}th time")
        results = {
            one.step.name: one.result
            for one in self._runs[name]
            if one.has_returned and (one.is_noted or one.token == run.token)
        } | self._said[name]
        for step, result in results.items():
            if call.results.get(step) != result:
                self.wrong(f"result lost: {text} got {call.results.get(step)} of {step}; it was {result}")

    def acts(self, run: Run) -> None:
        """Its effect happens."""
        run.has_effect = True
        self.acted[run.key] += 1
        place = run.name, run.step.name
        if run.step.once and run.token >= self._stale_below[place]:
            runs = [one for one in self._of(*place) if one.has_effect and one.token >= self._stale_below[place]]
            if len(runs) > self._allowed[place]:
                self.wrong(f"twice: step {place[1]} of {place[0]} took effect under {[one.token for one in runs]}")

    def ended(self, run: Run, error: str = "") -> None:
        run.is_over, run.error = True, error

    def checked(self, group: str, step: Step, message: Message, call: StepCall) -> Any:
        """What a check finds: a result, or None where nothing happened."""
        name = group, message.id, message.stamp
        acted = [run for run in self._of(name, step.name) if run.key == call.key and run.has_effect]
        if acted:
            self.effects["check found an effect"] += 1
            self._found[name, step.name] = message.token, acted[-1].result
            return acted[-1].result
        self.effects["check found nothing"] += 1
        if self.holders.get(group) == message.token:
            self._nothing_happened(name, step.name, message.token)
        return None

    def _nothing_happened(self, name: Name, step: str, token: int) -> None:
        """So it is said, under this token: whoever stood still before it may still act."""
        self._stale_below[name, step] = max(self._stale_below[name, step], token)
        self._asked[name].discard(step)
        for run in self._of(name, step):
            run.is_undone = True

    def _is_done(self, name: Name, step: str, token: int) -> bool:
        """Whether the holder of this token may take it for done."""
        found = self._found.get((name, step), (0, None))[0] == token
        runs = (run for run in self._of(name, step) if run.has_returned)
        return step in self._said[name] or found or any(run.is_noted or run.token == token for run in runs)

    # -- what the server carried out ------------------------------------------------------------------------------

    def written(self, group: str, member: str, token: int, ledger: str, *, by_person: bool = False) -> None:
        """A ledger is in the record, and it was not before."""
        name = group, member[16:], int(member[:16])
        if by_person:
            self._answered(name, ledger)
            return
        for run in self._runs[name]:
            if run.is_over and run.token == token and not run.is_noted:
                run.is_noted = True
                if run.step.once and run.error in ("Retry", "Park", "SetAside"):
                    self._nothing_happened(name, run.step.name, 0)
                elif run.has_returned:
                    self._asked[name].discard(run.step.name)
        for step in [step for owner, step in self._found if owner == name]:
            by, result = self._found[name, step]
            if by == token:
                self._said[name][step] = result
                self._asked[name].discard(step)

    def _answered(self, name: Name, ledger: str) -> None:
        for step, _, state, _, _, turn, who, _, _, *result in orjson.loads(ledger[DIGITS:])["s"]:
            if isinstance(who, str) and state == "d" and step not in self._said[name]:
                self.effects["person said done"] += 1
                self._said[name][step] = result[0] if result else None
                self._asked[name].discard(step)
            if turn > self._turns[name, step]:
                self.effects["person said again"] += 1
                self._turns[name, step] = turn
                self._allowed[name, step] += any(run.has_effect for run in self._of(name, step))
                self._nothing_happened(name, step, self.holders[name[0]] + 1)

    def acknowledged(self, group: str, member: str, token: int) -> None:
        """The message was there, and is gone."""
        name = group, member[16:], int(member[:16])
        for one in self.plan:
            if not one.optional and not self._is_done(name, one.name, token):
                self.wrong(f"skipped: {group}/{name[1]} is acknowledged, and step {one.name} is not done")
            elif one.optional and not self._is_done(name, one.name, token):
                self.effects["optional step left"] += 1

    def given_up(self, group: str, member: str, kind: str, ending: str) -> None:
        """The end of a pass gave it up, with a failure of this type."""
        asked = self._asked[group, member[16:], int(member[:16])]
        if kind == "StepUnknown":
            self.effects["question asked"] += 1
        elif asked:
            self.wrong(f"question lost: {group}/{member[16:]} ends as {ending} with {kind}, and asks for {asked}")
