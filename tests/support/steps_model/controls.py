"""Each rule taken out, so that the product must differ. A control differs from the rules in one method."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..model.record import Cut
from ..model.shard import ModelShard
from .declared import App, Step
from .ledger import Entry, Ledger
from .rules import Rules

CONTROLS: dict[str, Any] = {}
"""Rules, or a shard, by the name of the rule that was taken out."""


def _control(name: str) -> Any:
    def add(control: type[Any]) -> type[Any]:
        CONTROLS[name] = control
        return control

    return add


# -- what a design without these rules did, found by search: money, or a message that goes round for ever -----------


@_control("a message with a question is not given up")
class _GivesUp(Rules):
    def questions(self, ledger: Ledger, reason: str) -> list[str]:
        return super().questions(ledger, reason) if reason in ("failed", "error", "outage", "retry") else []


@_control("a check that raises counts an attempt")
class _FreeChecks(Rules):
    def check_raised(self, entry: Entry, error: str, *, counts: bool) -> Entry:
        return entry


@_control("fresh attempts are written by the nack that parks or buries")
class _NoFreshAttempts(Rules):
    def fresh(self, ledger: Ledger) -> Ledger:
        return ledger


@_control("a once entry stays once")
class _KindOfTheVersion(Rules):
    def kept(self, entry: Entry, step: Step) -> Entry:
        is_begun = entry.state == "started" and not step.once
        state = "failed" if is_begun else entry.state
        return replace(entry, once=step.once, optional=step.optional, state=state)


@_control("a question stays required")
class _OptionalOfTheVersion(Rules):
    def kept(self, entry: Entry, step: Step) -> Entry:
        return replace(super().kept(entry, step), optional=step.optional)


@_control("retired covers automatic steps only")
class _RetiresAll(Rules):
    def is_retired(self, entry: Entry, app: App) -> bool:
        return entry.name in app.retired


@_control("open required steps are listed in each write")
class _NoOpenSteps(Rules):
    def written(self, ledger: Ledger) -> Ledger:
        kept = tuple(e for e in ledger.entries if e.state != "open" or e.attempts or e.turn > 1)
        return replace(ledger, entries=kept)


@_control("a Retry in a once step counts an attempt")
class _FreeRetry(Rules):
    def nothing_happened(self, entry: Entry, error: str, *, counts: bool) -> Entry:
        return entry.moved("open", token=0)


@_control("an automatic step that raised is failed, counted or not")
class _OutageLeavesOpen(Rules):
    def raised(self, step: Step, entry: Entry, error: str, limit: int, *, counts: bool) -> Entry:
        if not entry.once and self.is_outage(entry, error) and not counts:
            return replace(entry, state="open")
        return super().raised(step, entry, error, limit, counts=counts)


@_control("a step behind one that is left is left too")
class _WaitsForLeft(Rules):
    def is_over(self, step: Step, ledger: Ledger, steps: Sequence[Step], app: App, token: int) -> bool:
        entry, limit = ledger.get(step.name), app.limit(step)
        return entry is None or not (self.is_open(entry, limit) or self.may_check(step, entry, limit, token))


@_control("a step behind one that a person may answer waits")
class _LeavesWhatWaits(Rules):
    def is_over(self, step: Step, ledger: Ledger, steps: Sequence[Step], app: App, token: int) -> bool:
        return not self.can_be_tried(step, ledger, steps, app, token)


@_control("a note is behind the acknowledgements of its group")
class _NoteAlone(ModelShard):
    def save_step(self, group: str, token: str, member: str, before: str, ledger: str, progressed: str) -> int:
        return super().save_step(group, token, member, "", ledger, progressed)


@_control("a late repeat of a note undoes nothing")
class _NoSerial(ModelShard):
    def save_step(self, group: str, token: str, member: str, before: str, ledger: str, progressed: str) -> int:
        known = Cut.of(self.bodies.get(group, {}).get(member[16:], "")).ledger
        serial = int(known[1:5], 16) + 1 if known else 1
        return super().save_step(group, token, member, before, f"{ledger[0]}{serial:04x}{ledger[5:]}", progressed)


@_control("reschedule keeps the stamp of the keys")
class _NewStamp(ModelShard):
    def update(self, group: str, message_id: str, score: str, due: str) -> bytes:
        before = Cut.of(self.bodies.get(group, {}).get(message_id, "")).ledger
        done = super().update(group, message_id, score, due)
        if done == b"done" and score:
            body = self.bodies[group]
            body[message_id] = replace(Cut.of(body[message_id]), ledger=before).text()
        return done


@_control("redrive compares the failure that was seen")
class _AnyLetter(ModelShard):
    def redrive(self, _from: str, words: str, ledger: str) -> bytes:
        letters = [word for letter in json.loads(words)[::2] for word in (letter, "")]
        return super().redrive(_from, json.dumps(letters), ledger)


# -- the rest of the rules: the negative control of the fault tests
# ---------------------------------------------------------


@_control("the start of a once step is waited for")
class _StartsUnnoted(Rules):
    def waits_for_start(self) -> bool:
        return False


@_control("a step whose start replicas did not confirm is not called")
class _StartsUnconfirmed(Rules):
    def waits_for_replicas(self) -> bool:
        return False


@_control("a start that replicas did not confirm is taken back")
class _LeavesStarted(Rules):
    def unconfirmed(self, entry: Entry) -> Entry:
        return entry


@_control("an optional step without its result holds nothing back")
class _ParksWithoutResult(Rules):
    def lost_result(self, entry: Entry) -> str:
        return "park"


@_control("what says that nothing happened is no question")
class _AsksAboutNothing(Rules):
    def says_nothing_happened(self, step: Step, error: str) -> bool:
        return error in ("retry", "outage by hand")


@_control("a check is asked after the last attempt")
class _NoLastCheck(Rules):
    def may_check(self, step: Step, entry: Entry, limit: int, token: int) -> bool:
        return super().may_check(step, entry, limit - 1, token)


@_control("a check is asked before a person is")
class _AsksAtOnce(Rules):
    def may_ask(self, step: Step, ledger: Ledger, unanswered: int, limit: int) -> bool:
        return False


@_control("the next step waits for the note of the one before")
class _RunsAhead(Rules):
    def waits_for_end(self) -> bool:
        return False


@_control("a once step never runs again by itself")
class _OnceAsAutomatic(Rules):
    def is_open(self, entry: Entry, limit: int) -> bool:
        return super().is_open(entry, limit) or (entry.state == "started" and entry.attempts < limit)


@_control("a stop is looked at before the start is noted")
class _StopsAfterStart(Rules):
    def stops_before(self, entry: Entry, *, is_begun: bool) -> bool:
        return is_begun or not entry.once


@_control("a failure does not stop the pass")
class _StopsAtFailure(Rules):
    def goes_on(self, error: str) -> bool:
        return False


@_control("a message is acknowledged when all required steps are done")
class _AcksOpen(Rules):
    def is_finished(self, ledger: Ledger, steps: Sequence[Step]) -> bool:
        return all(entry.state not in ("failed", "started") for entry in ledger.entries)


@_control("a step waits for the one that it comes after")
class _NoAfter(Rules):
    def may_begin(self, step: Step, ledger: Ledger) -> bool:
        return True


@_control("steps match by name")
class _ByPosition(Rules):
    def joined(self, ledger: Ledger, steps: Sequence[Step]) -> Ledger:
        old = ledger.entries
        entries = [
            replace(self.kept(old[place], step), name=step.name) if place < len(old) else Entry(step.name, step.once)
            for place, step in enumerate(steps)
        ]
        return replace(ledger, entries=tuple(entries))


@_control("leases that end without an answer are counted")
class _NeverKilled(Rules):
    def has_killed(self, unanswered: int, limit: int) -> bool:
        return False


@_control("progress counts them anew")
class _NoProgress(ModelShard):
    def save_step(self, group: str, token: str, member: str, before: str, ledger: str, progressed: str) -> int:
        return super().save_step(group, token, member, before, ledger, "0")


@_control("only the holder of the lease writes")
class _NoFence(ModelShard):
    def holds(self, group: str, token: str) -> bool:
        return group in self.leases


@_control("cancel and replace are refused after effects")
class _Unprotected(ModelShard):
    def is_protected(self, record: str) -> bool:
        return False


@_control("a ledger dies with its message")
class _LedgerElsewhere(ModelShard):
    """Ledgers lie in a hash of their own, by group and id."""

    def __init__(self) -> None:
        super().__init__()
        self.ledgers: dict[tuple[str, str], str] = {}

    def keep(self, group: str, message_id: str) -> None:
        if ledger := Cut.of(self.bodies.get(group, {}).get(message_id, "")).ledger:
            self.ledgers[group, message_id] = ledger

    def remove(self, group: str, members: list[str]) -> None:
        for member in members:
            self.keep(group, member[16:])
        super().remove(group, members)

    def take(self, group: str, message_id: str) -> tuple[str, float] | None:
        self.keep(group, message_id)
        return super().take(group, message_id)

    def append(self, *args: str) -> bytes:
        reply = super().append(*args)
        for group, body in self.bodies.items():
            for id, cut in {id: Cut.of(text) for id, text in body.items()}.items():
                body[id] = replace(cut, ledger=cut.ledger or self.ledgers.get((group, id), "")).text()
        return reply
