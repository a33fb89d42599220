"""Each rule taken out: what a walk without it does to a message. A control differs from the rules in one method."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..model.record import Cut
from .declared import App, Step
from .ledger import Entry, Ledger
from .rules import Rules
from .shard import Shard, Told


@dataclass(frozen=True)
class Control:
    """Rules, or a shard, without one rule; `breaks` is how what goes wrong begins in the words of the judge.

    `seed`: the first walk that goes wrong without the rule.
    """

    breaks: str
    seed: int
    rules: type[Rules] = Rules
    shard: type[Shard] = Shard


CONTROLS: dict[str, Control] = {}
"""By the name of the rule that was taken out."""


def _control(name: str, breaks: str, seed: int) -> Any:
    def add(control: type[Any]) -> type[Any]:
        is_shard = issubclass(control, Shard)
        CONTROLS[name] = Control(breaks, seed, shard=control) if is_shard else Control(breaks, seed, rules=control)
        return control

    return add


# -- what a design without these rules did, found by search: money, or a message that goes round for ever -----------


@_control("a message with a question is not given up", "question lost", 3)
class _GivesUp(Rules):
    def questions(self, ledger: Ledger, reason: str) -> list[str]:
        return super().questions(ledger, reason) if reason in ("failed", "error", "outage", "retry") else []


@_control("a check that raises counts an attempt", "for ever", 20)
class _FreeChecks(Rules):
    def check_raised(self, entry: Entry, error: str, *, counts: bool) -> Entry:
        return entry


@_control("fresh attempts are written by the nack that parks or buries", "for ever", 6)
class _NoFreshAttempts(Rules):
    def fresh(self, ledger: Ledger) -> Ledger:
        return ledger


@_control("a once entry stays once", "ran again", 22)
class _KindOfTheVersion(Rules):
    def kept(self, entry: Entry, step: Step) -> Entry:
        is_begun = entry.state == "started" and not step.once
        state = "failed" if is_begun else entry.state
        return replace(entry, once=step.once, optional=step.optional, state=state)


@_control("a question stays required", "question lost", 633)
class _OptionalOfTheVersion(Rules):
    def kept(self, entry: Entry, step: Step) -> Entry:
        return replace(super().kept(entry, step), optional=step.optional)


@_control("retired covers automatic steps only", "question lost", 173)
class _RetiresAll(Rules):
    def is_retired(self, entry: Entry, app: App) -> bool:
        return entry.name in app.retired


@_control("open required steps are listed in each write", "skipped", 22)
class _NoOpenSteps(Rules):
    def written(self, ledger: Ledger) -> Ledger:
        kept = tuple(e for e in ledger.entries if e.state != "open" or e.attempts or e.turn > 1)
        return replace(ledger, entries=kept)


@_control("a Retry in a once step counts an attempt", "for ever", 9)
class _FreeRetry(Rules):
    def nothing_happened(self, entry: Entry, error: str, *, counts: bool) -> Entry:
        return entry.moved("open", token=0)


@_control("an automatic step that raised is failed, counted or not", "ran again", 99)
class _OutageLeavesOpen(Rules):
    def raised(self, step: Step, entry: Entry, error: str, limit: int, *, counts: bool) -> Entry:
        if not entry.once and self.is_outage(entry, error) and not counts:
            return replace(entry, state="open")
        return super().raised(step, entry, error, limit, counts=counts)


@_control("a step behind one that is left is left too", "for ever", 153)
class _WaitsForLeft(Rules):
    def is_over(self, step: Step, ledger: Ledger, steps: Sequence[Step], app: App, token: int) -> bool:
        entry, limit = ledger.get(step.name), app.limit(step)
        return entry is None or not (self.is_open(entry, limit) or self.may_check(step, entry, limit, token))


@_control("a step behind one that a person may answer waits", "skipped", 231)
class _LeavesWhatWaits(Rules):
    def is_over(self, step: Step, ledger: Ledger, steps: Sequence[Step], app: App, token: int) -> bool:
        return not self.can_be_tried(step, ledger, steps, app, token)


@_control("a note is behind the acknowledgements of its group", "order", 27)
class _NoteAlone(Shard):
    def save_step(self, group: str, token: str, member: str, before: str, ledger: str, progressed: str) -> int:
        return super().save_step(group, token, member, "", ledger, progressed)


@_control("a late repeat of a note undoes nothing", "ran again", 144)
class _NoSerial(Shard):
    def save_step(self, group: str, token: str, member: str, before: str, ledger: str, progressed: str) -> int:
        known = Cut.of(self.bodies.get(group, {}).get(member[16:], "")).ledger
        serial = int(known[1:5], 16) + 1 if known else 1
        return super().save_step(group, token, member, before, f"{ledger[0]}{serial:04x}{ledger[5:]}", progressed)


@_control("reschedule keeps the stamp of the keys", "second key", 226)
class _NewStamp(Shard):
    def update(self, group: str, message_id: str, score: str, due: str) -> bytes:
        before = Cut.of(self.bodies.get(group, {}).get(message_id, "")).ledger
        done = super().update(group, message_id, score, due)
        if done == b"done" and score:
            body = self.bodies[group]
            body[message_id] = replace(Cut.of(body[message_id]), ledger=before).text()
        return done


@_control("redrive compares the failure that was seen", "ran again", 93)
class _AnyLetter(Shard):
    def redrive(self, _from: str, words: str, ledger: str) -> bytes:
        letters = [word for letter in json.loads(words)[::2] for word in (letter, "")]
        return super().redrive(_from, json.dumps(letters), ledger)


# -- the rest of the rules: the negative control of the fault tests
# ---------------------------------------------------------


@_control("the start of a once step is waited for", "ran again", 0)
class _StartsUnnoted(Rules):
    def waits_for_start(self) -> bool:
        return False


@_control("a step whose start replicas did not confirm is not called", "unconfirmed", 4)
class _StartsUnconfirmed(Rules):
    def waits_for_replicas(self) -> bool:
        return False


@_control("a start that replicas did not confirm is taken back", "false question", 7)
class _LeavesStarted(Rules):
    def unconfirmed(self, entry: Entry) -> Entry:
        return entry


@_control("an optional step without its result holds nothing back", "held back", 11)
class _ParksWithoutResult(Rules):
    def lost_result(self, entry: Entry) -> str:
        return "park"


@_control("a message of an unknown kind is not dropped after effects", "dropped", 306)
class _DropsUnknown(Rules):
    def ending_of_unknown(self, app: App, ledger: Ledger) -> str:
        return app.on_unknown


@_control("what says that nothing happened is no question", "false question", 5)
class _AsksAboutNothing(Rules):
    def says_nothing_happened(self, step: Step, error: str) -> bool:
        return error in ("retry", "outage by hand")


@_control("a check is asked after the last attempt", "asked in vain", 10)
class _NoLastCheck(Rules):
    def may_check(self, step: Step, entry: Entry, limit: int, token: int) -> bool:
        return super().may_check(step, entry, limit - 1, token)


@_control("a check is asked before a person is", "asked in vain", 15)
class _AsksAtOnce(Rules):
    def may_ask(self, step: Step, ledger: Ledger, unanswered: int, limit: int) -> bool:
        return False


@_control("the next step waits for the note of the one before", "ran again", 7)
class _RunsAhead(Rules):
    def waits_for_end(self) -> bool:
        return False


@_control("a once step never runs again by itself", "ran again", 1)
class _OnceAsAutomatic(Rules):
    def is_open(self, entry: Entry, limit: int) -> bool:
        return super().is_open(entry, limit) or (entry.state == "started" and entry.attempts < limit)


@_control("a stop is looked at before the start is noted", "false question", 4)
class _StopsAfterStart(Rules):
    def stops_before(self, entry: Entry, *, is_begun: bool) -> bool:
        return is_begun or not entry.once


@_control("a failure does not stop the pass", "held back", 0)
class _StopsAtFailure(Rules):
    def goes_on(self, error: str) -> bool:
        return False


@_control("a message is acknowledged when all required steps are done", "skipped", 7)
class _AcksOpen(Rules):
    def is_finished(self, ledger: Ledger, steps: Sequence[Step]) -> bool:
        return all(entry.state not in ("failed", "started") for entry in ledger.entries)


@_control("a step waits for the one that it comes after", "before its turn", 1)
class _NoAfter(Rules):
    def may_begin(self, step: Step, ledger: Ledger) -> bool:
        return True


@_control("steps match by name", "ran again", 8)
class _ByPosition(Rules):
    def joined(self, ledger: Ledger, steps: Sequence[Step]) -> Ledger:
        old = ledger.entries
        entries = [
            replace(self.kept(old[place], step), name=step.name) if place < len(old) else Entry(step.name, step.once)
            for place, step in enumerate(steps)
        ]
        return replace(ledger, entries=tuple(entries))


@_control("again brings a new key", "old key", 1)
class _SameTurn(Rules):
    def again(self, entry: Entry) -> Entry:
        return replace(super().again(entry), turn=entry.turn)


@_control("leases that end without an answer are counted", "for ever", 3)
class _NeverKilled(Rules):
    def has_killed(self, unanswered: int, limit: int) -> bool:
        return False


@_control("progress counts them anew", "given up", 38)
class _NoProgress(Shard):
    def save_step(self, group: str, token: str, member: str, before: str, ledger: str, progressed: str) -> int:
        return super().save_step(group, token, member, before, ledger, "0")


@_control("only the holder of the lease writes", "ran again", 5)
class _NoFence(Shard):
    def holds(self, group: str, token: str) -> bool:
        return group in self.leases


@_control("cancel and replace are refused after effects", "question lost", 3)
class _Unprotected(Shard):
    def is_protected(self, record: str) -> bool:
        return False


@_control("a letter with a question does not age out", "question lost", 35)
class _AgesAll(Shard):
    def has_unresolved(self, told: Told) -> bool:
        return False


@_control("a ledger dies with its message", "skipped", 18)
class _LedgerElsewhere(Shard):
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
