"""What really happened, outside of the shard, and what is wrong with it. The judge of a walk: it reads no ledger."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

from .actions import Ack, Call, Nack
from .declared import App, Step

NOTHING_HAPPENED = ("retry", "outage by hand", "park", "set aside", "declined")
"""What a `once` step raises to say so."""
MOST_PASSES = 13
"""So many passes may wait in a row though nothing got done: more than all attempts of all steps."""


@dataclass
class Run:
    """One call of a step by a consumer whose lease was valid."""

    key: str
    is_once: bool
    has_effect: bool
    token: int
    result: Any = None
    error: str = ""
    is_over: bool = False
    is_noted: bool = False
    is_followed: bool = False
    """Another step of the message began after it returned."""
    is_repeated: bool = False
    """A person or the check said after it that nothing had happened, or the step itself."""

    @property
    def has_returned(self) -> bool:
        return self.is_over and self.error in ("", "result")


class Truth:
    """Runs of steps by message and step, and what was said of them."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.runs: dict[tuple[int, str], list[Run]] = defaultdict(list)
        self.said: dict[tuple[int, str], Any] = {}
        """Results that a person or a check gave."""
        self.found: dict[tuple[int, str], tuple[int, Any]] = {}
        """What a check found, under which lease, and no write has kept yet."""
        self.fresh_keys: set[tuple[int, str]] = set()
        """A person said `--again`: the next run needs a key of its own."""
        self.asked: dict[int, set[str]] = defaultdict(set)
        """Required `once` steps that began and whose end nobody knows yet."""
        self.checked: set[tuple[int, str]] = set()
        """Steps whose check was asked since they were called."""
        self.unconfirmed: set[tuple[int, str, int]] = set()
        """Starts that a failover may lose, with their leases."""
        self.listed: dict[int, set[str]] = defaultdict(set)
        """Required steps of the versions that wrote a ledger."""
        self.writers: dict[int, list[App]] = defaultdict(list)
        """Versions that wrote a ledger."""
        self.disturbed: set[int] = set()
        """Messages in whose pass a consumer died, or lost its lease or the message."""
        self.passes: Counter[int] = Counter()
        self.unanswered: Counter[int] = Counter()

    def wrong(self, text: str) -> None:
        self.problems.append(text)

    def effect(self, uid: int, step: str) -> bool:
        return any(run.has_effect for run in self.runs[uid, step])

    def is_done(self, uid: int, step: str) -> bool:
        return (
            (uid, step) in self.said
            or (uid, step) in self.found
            or any(run.has_returned for run in self.runs[uid, step])
        )

    # -- steps ------------------------------------------------------------------------------------------------

    def entered(self, uid: int, step: Step, call: Call, run: Run) -> Run:
        """A step is called by the holder of the lease."""
        what, before = f"step {step.name} of message {uid}", self.runs[uid, step.name]
        for name in step.before:
            if not self.is_done(uid, name):
                self.wrong(f"before its turn: {what} began before {name} was done")
        if (uid, step.name, run.token) in self.unconfirmed:
            self.wrong(f"unconfirmed: {what} was called, and a failover may lose its start")
        self._results(uid, call, run.token)
        if (uid, step.name) in self.said:
            self.wrong(f"ran again: {what} was done")
        for one in before:
            if one.has_returned and (one.is_noted or one.is_followed):
                self.wrong(f"ran again: {what} was done")
            elif (one.is_once or (run.is_once and one.is_noted)) and not one.is_repeated:
                self.wrong(f"ran again: {what} runs once")
            elif one.has_effect and one.key != run.key and not one.is_repeated:
                self.wrong(f"second key: {what} ran as {one.key} and as {run.key}")
        if (uid, step.name) in self.fresh_keys and any(one.key == run.key for one in before):
            self.wrong(f"old key: {what} was to run anew")
        self.fresh_keys.discard((uid, step.name))
        for (owner, name), runs in self.runs.items():
            if owner == uid and name != step.name:
                for one in runs:
                    one.is_followed |= one.is_over and one.token == run.token
        before.append(run)
        self.checked.discard((uid, step.name))
        if step.once and not step.optional:
            self.asked[uid].add(step.name)
        return run

    def _results(self, uid: int, call: Call, token: int) -> None:
        """Each step gets what the steps before it returned, from the server's notes or from this very pass."""
        for (owner, name), runs in self.runs.items():
            known = [run for run in runs if run.has_returned and not run.error]
            returned = [run.result for run in known if run.is_noted or run.token == token]
            is_other = owner == uid and name != call.step and (uid, name) not in self.said
            if is_other and returned and call.results.get(name) != returned[-1]:
                self.wrong(f"result lost: {name} of message {uid} is {call.results.get(name)} for {call.step}")
        for (owner, name), result in self.said.items():
            if owner == uid and call.results.get(name) != result:
                self.wrong(f"result lost: what was said of {name} of message {uid}")

    def nothing_happened(self, uid: int, step: str) -> None:
        for run in self.runs[uid, step]:
            run.is_repeated = True
        self.asked[uid].discard(step)

    def say_done(self, uid: int, step: str, result: Any) -> None:
        self.said[uid, step] = result
        self.asked[uid].discard(step)

    def say_again(self, uid: int, step: str) -> None:
        self.nothing_happened(uid, step)
        self.fresh_keys.add((uid, step))

    def let_go_on(self, uid: int) -> None:
        self.progressed(uid)

    # -- writes ------------------------------------------------------------------------------------------------

    def written(self, uid: int, app: App, kind: str, token: int) -> None:
        """A note or nack was accepted: what this holder knows is in the server."""
        self.writers[uid].append(app)
        self.listed[uid] |= {step.name for step in app.steps(kind) if not step.optional}
        for (owner, name), (by, result) in list(self.found.items()):
            if owner == uid and by == token:
                self.say_done(uid, name, result)
                del self.found[owner, name]
        for (owner, name), runs in self.runs.items():
            for run in runs if owner == uid else ():
                if run.is_over and run.token == token and not run.is_noted:
                    run.is_noted = True
                    if run.is_once and run.error in NOTHING_HAPPENED:
                        self.nothing_happened(uid, name)
                    if run.has_returned:
                        self.asked[uid].discard(name)
                        self.progressed(uid)

    def progressed(self, uid: int) -> None:
        self.passes[uid] = self.unanswered[uid] = 0

    def claimed(self, uid: int, limit: int) -> None:
        """The claim found a lease that had ended without a word."""
        self.unanswered[uid] += 1
        self.disturbed.add(uid)
        if self.unanswered[uid] > 3 * limit:
            self.wrong(f"for ever: message {uid} ends each process that takes it")

    def nacked(self, uid: int, nack: Nack, app: App, kind: str, token: int) -> None:
        """A pass ended without its message."""
        for step in app.steps(kind):
            runs = self.runs[uid, step.name]
            is_ended = nack.failure.reason in ("park", "set aside", "declined", "result")
            is_early = not runs or (runs[-1].token == token and is_ended) or self.unanswered[uid] > app.max_attempts
            is_asked = step.has_check and step.name in nack.failure.questions
            if is_asked and not is_early and (uid, step.name) not in self.checked:
                self.wrong(f"asked in vain: step {step.name} of message {uid} has a check, which was not asked")
        failure, limit = nack.failure, app.max_attempts
        if failure.reason in ("error", "retry", "outage", "outage by hand") and self.is_plain(uid, app):
            for step in app.steps(kind):
                if (
                    not step.once
                    and not step.after
                    and not self.runs[uid, step.name]
                    and not self.is_done(uid, step.name)
                ):
                    self.wrong(f"held back: step {step.name} of message {uid} waits for the failure of another")
        for name in failure.questions:
            runs = self.runs[uid, name]
            has_failed = any(run.error and not (run.is_once and run.error in NOTHING_HAPPENED) for run in runs)
            if uid not in self.disturbed and not has_failed:
                self.wrong(f"false question: nothing happened to step {name} of message {uid}")
        if failure.reason == "result" and self.is_plain(uid, app) and self.is_without_result(uid, app, kind):
            self.wrong(f"held back: message {uid} waits for the result of an optional step")
        if failure.reason == "unknown kind" and nack.ending == "drop" and self.has_noted(uid):
            self.wrong(f"dropped: message {uid}, though steps of it are done")
        if failure.reason == "lease expired" and self.unanswered[uid] < limit:
            self.wrong(f"given up: message {uid} went on after {self.unanswered[uid]} leases without an answer")
        if nack.ending in ("drop", "dead") and not failure.questions:
            self.gone(uid, nack.ending)
        if nack.ending:
            self.unanswered[uid] = 0
        elif not nack.is_missing and not nack.is_outage:
            self.passes[uid] += 1
            if self.passes[uid] > MOST_PASSES:
                self.wrong(f"for ever: {MOST_PASSES} passes over message {uid} did nothing")

    def is_without_result(self, uid: int, app: App, kind: str) -> bool:
        """Whether only optional steps of it lost their results."""
        required = (step.name for step in app.steps(kind) if not step.optional)
        return not any(run.error == "result" for name in required for run in self.runs[uid, name])

    def has_noted(self, uid: int) -> bool:
        """Whether the server was told that a step of it is done."""
        found = (run for (owner, _), runs in self.runs.items() if owner == uid for run in runs)
        return any(run.has_returned and run.is_noted for run in found)

    def is_plain(self, uid: int, app: App) -> bool:
        """One version wrote all of its ledger, nothing disturbed a pass, and no person ran a step again."""
        is_again = any(run.is_repeated for (owner, _), runs in self.runs.items() if owner == uid for run in runs)
        return all(one is app for one in self.writers[uid]) and uid not in self.disturbed and not is_again

    def gone(self, uid: int, how: str) -> None:
        if self.asked[uid]:
            self.wrong(f"question lost: {sorted(self.asked[uid])} of message {uid}, which is gone by {how}")

    def acked(self, uid: int, app: App, kind: str, ack: Ack, token: int) -> None:
        for name in list(self.asked[uid]):
            if self.found.get((uid, name), (0, None))[0] == token or any(
                run.has_returned and run.token == token for run in self.runs[uid, name]
            ):
                self.asked[uid].discard(name)
        self.gone(uid, "acknowledgement")
        steps = app.steps(kind)
        known = {step.name for step in steps}
        required = {step.name for step in steps if not step.optional}
        left = {entry.name for entry in ack.ledger.entries if entry.state == "left"}
        covered = {name for name in app.retired if not any(run.is_once for run in self.runs[uid, name])}
        for name in sorted((required - left) | (self.listed[uid] - known - covered)):
            if not self.is_done(uid, name):
                self.wrong(f"skipped: step {name} of message {uid}, which was acknowledged")
        for step in steps if self.is_plain(uid, app) else ():
            may_run = step.optional and all(self.is_done(uid, name) for name in step.before)
            if may_run and not self.runs[uid, step.name] and not self.is_done(uid, step.name):
                self.wrong(f"skipped: optional step {step.name} of message {uid} was never tried")
        failed = {step.name for step in steps if step.optional and not self.is_done(uid, step.name)}
        if failed and not ack.with_failures:
            self.wrong(f"pending_news: message {uid} is finished, though {sorted(failed)} failed")
