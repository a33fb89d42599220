"""The rules of a pass: what a ledger and the declared steps mean together. Pure; each rule is one method.

A control is a subclass with one method changed: it shows what the rule is for. Nothing here knows of a server or a
clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .declared import App, Step
from .ledger import Entry, Ledger, LedgerError


class Rules:
    """What each entry means for the pass in progress."""

    # -- the ledger and the steps that this version declares -------------------------------------------------------

    def joined(self, ledger: Ledger, steps: Sequence[Step]) -> Ledger:
        """The ledger with an entry for each declared step. Steps match by name, never by position."""
        for step in steps:
            before = ledger.get(step.name)
            ledger = ledger.put(
                Entry(step.name, step.once, step.optional) if before is None else self.kept(before, step)
            )
        return ledger

    def kept(self, entry: Entry, step: Step) -> Entry:
        """A `once` entry stays `once`, and required while its question is open, whichever version runs."""
        is_asked = entry.once and entry.state in ("started", "failed")
        optional = step.optional and (entry.optional or not is_asked)
        return replace(entry, once=entry.once or step.once, optional=optional)

    def written(self, ledger: Ledger) -> Ledger:
        """What a write holds: the open required steps too, so that a version without them can't acknowledge."""
        return ledger

    def missing(self, ledger: Ledger, steps: Sequence[Step], app: App) -> list[str]:
        """Required steps that are not done and that this version lacks. Done and optional ones are kept."""
        known = {step.name for step in steps}
        unknown = [entry for entry in ledger.entries if entry.name not in known and not entry.optional]
        return [e.name for e in unknown if e.state not in ("done", "left") and not self.is_retired(e, app)]

    def is_retired(self, entry: Entry, app: App) -> bool:
        """`retired=` covers open and failed automatic steps only: it answers no question."""
        return entry.name in app.retired and not entry.once

    # -- what a step may do now ----------------------------------------------------------------------------------

    def may_begin(self, step: Step, ledger: Ledger) -> bool:
        """Whether the steps that it comes after are done."""
        return all((before := ledger.get(name)) is not None and before.state == "done" for name in step.before)

    def is_open(self, entry: Entry, limit: int) -> bool:
        """Whether the step may be called now. A failed automatic one with attempts left is read as open."""
        is_ready = entry.state == "open" or (entry.state == "failed" and not entry.once)
        return is_ready and entry.attempts < limit

    def may_check(self, step: Step, entry: Entry, limit: int, token: int) -> bool:
        """Whether `check` is to say how a `once` step ended: unknown, or failed. After the last try too: so it is asked
        once more than the step is called.
        """
        is_asked = self.is_unknown(entry, token) or (entry.once and entry.state == "failed")
        return is_asked and step.has_check and entry.attempts <= limit

    def may_ask(self, step: Step, ledger: Ledger, unanswered: int, limit: int) -> bool:
        """Whether `check` is asked before a person is, though the message is given up. Where as many processes ended as
        may, only once: the check may be what ends them.
        """
        return step.has_check and step.name in self.questions(ledger, "") and unanswered <= limit

    def is_unknown(self, entry: Entry, token: int) -> bool:
        """Whether the step was started under another lease: nobody here knows how it ended."""
        return entry.state == "started" and entry.token != token

    # -- what is written before ------------------------------------------------------------------------------------

    def waits_for_start(self) -> bool:
        """The start of a `once` step is in the server before the step is called."""
        return True

    def waits_for_replicas(self) -> bool:
        """A step whose start the replicas did not confirm is not called: a failover could lose the start."""
        return True

    def unconfirmed(self, entry: Entry) -> Entry:
        """Its start is taken back: it is known not to have begun, and no attempt of it is counted."""
        return entry.moved("open", token=0)

    def waits_for_end(self) -> bool:
        """The next step begins only after the outcome of the one before is in the server."""
        return True

    def stops_before(self, entry: Entry, *, is_begun: bool) -> bool:
        """A stop is looked at before a start is noted; after it the call is made, or there were a false question."""
        return not is_begun

    # -- what became of it -----------------------------------------------------------------------------------------

    def raised(self, step: Step, entry: Entry, error: str, limit: int, *, counts: bool) -> Entry:
        """The entry after its step raised. `counts`: this outage counts as a failure, see Facts.outages."""
        if entry.once and self.says_nothing_happened(step, error):
            return self.nothing_happened(entry, error, counts=counts)
        is_free = not entry.once and self.is_outage(entry, error) and not counts
        attempts = (
            entry.attempts if is_free else entry.attempts + 1
        )  # failed all the same: what timed out may have acted
        is_last = entry.optional and entry.once and not (step.has_check and attempts <= limit)
        return entry.moved("left" if is_last else "failed", attempts=attempts, error=error)

    def is_outage(self, entry: Entry, error: str) -> bool:
        """Whether it says that something all handlers need is away; of an optional step only where it was meant."""
        return error == "outage by hand" or (error == "outage" and not entry.optional)

    def says_nothing_happened(self, step: Step, error: str) -> bool:
        """Whether a `once` step says that it took no effect: then nobody is asked."""
        return error in ("retry", "outage by hand", "park", "set aside") or (step.once and error == "declined")

    def nothing_happened(self, entry: Entry, error: str, *, counts: bool) -> Entry:
        """It is open again. It counts an attempt, and so does an outage that counts: else it could go on for ever. An
        optional one that was declined is left.
        """
        counted = 1 if error != "outage by hand" or counts else 0
        is_left = error == "declined" and entry.optional
        return entry.moved("left" if is_left else "open", attempts=entry.attempts + counted, error=error, token=0)

    def check_raised(self, entry: Entry, error: str, *, counts: bool) -> Entry:
        """A check that raises counts as an attempt of its step, as an outage that counts does: else it could go on for
        ever.
        """
        is_free = self.is_outage(entry, error) and not counts
        return entry if is_free else replace(entry, attempts=entry.attempts + 1, error=error)

    def stops_pass(self, step: Step, entry: Entry, error: str, app: App) -> str:
        """What a step asks for its message: the end of the pass with this ending; else the next step runs."""
        if error == "declined":
            return app.on_failure if step.once and not entry.optional else ""
        return {"park": "park", "set aside": "dead"}.get(error, "")

    def lost_result(self, entry: Entry) -> str:
        """What follows where a step took effect and its result could not be kept: the group parks, and no size repeats
        a step. One that is optional holds nothing back: as its failure, that is noted.
        """
        return "" if entry.optional else "park"

    def without_result(self, ledger: Ledger) -> list[str]:
        """Such steps, of earlier passes."""
        return [e.name for e in ledger.entries if e.state == "done" and e.error and not e.optional]

    def failures(self, ledger: Ledger) -> list[str]:
        """What a message that is finished did without."""
        return [e.name for e in ledger.entries if e.state == "left" or (e.optional and (e.state != "done" or e.error))]

    def ending_of_unknown(self, app: App, ledger: Ledger) -> str:
        """What becomes of a message of an unknown kind: what was done for it is not dropped with it."""
        return "park" if app.on_unknown == "drop" and ledger.has_effects else app.on_unknown

    def goes_on(self, error: str) -> bool:
        """Whether the next step runs in this pass after one that raised: steps are independent."""
        return True

    def has_killed(self, unanswered: int, limit: int) -> bool:
        """Whether it ended so many processes that nobody is to try it again."""
        return unanswered >= limit

    # -- the end of a pass -----------------------------------------------------------------------------------------

    def closed(self, ledger: Ledger, steps: Sequence[Step], app: App, token: int) -> Ledger:
        """Optional steps that will never run again are left."""
        for step in steps:
            entry = ledger.get(step.name)
            assert entry is not None
            if entry.optional and entry.state not in ("done", "left") and self.is_over(step, ledger, steps, app, token):
                ledger = ledger.put(entry.moved("left"))
        return ledger

    def is_over(self, step: Step, ledger: Ledger, steps: Sequence[Step], app: App, token: int) -> bool:
        """Whether nothing will ever call the step: it has no attempts, or a step that it comes after is left.

        Behind a required step it waits: a person may say how that one ended, or resume it.
        """
        entry, limit = ledger.get(step.name), app.limit(step)
        if entry is None or not (self.is_open(entry, limit) or self.may_check(step, entry, limit, token)):
            return entry is None or entry.state != "done"
        optional = {one.name for one in ledger.entries if one.optional}
        before = [one for one in steps if one.name in step.before and one.name in optional]
        return any(self.is_over(one, ledger, steps, app, token) for one in before)

    def can_be_tried(self, step: Step, ledger: Ledger, steps: Sequence[Step], app: App, token: int) -> bool:
        """Whether a later pass can do something for this step without a person."""
        entry = ledger.get(step.name)
        limit = app.limit(step)
        if entry is None or not (self.is_open(entry, limit) or self.may_check(step, entry, limit, token)):
            return False
        if self.may_begin(step, ledger):
            return True
        done = {one.name for one in ledger.entries if one.state == "done"}
        before = [one for one in steps if one.name in step.before and one.name not in done]
        return all(self.can_be_tried(one, ledger, steps, app, token) for one in before)

    def is_finished(self, ledger: Ledger, steps: Sequence[Step]) -> bool:
        """Whether the message may be acknowledged: each step is done, or left because it is optional."""
        entries = [ledger.get(step.name) for step in steps]
        return all(entry is not None and entry.state in ("done", "left") for entry in entries)

    def questions(self, ledger: Ledger, reason: str) -> list[str]:
        """Required `once` steps whose end a person must tell, whatever the reason to give the message up is."""
        return [e.name for e in ledger.entries if e.once and not e.optional and e.state in ("started", "failed")]

    def fresh(self, ledger: Ledger) -> Ledger:
        """Written by each nack that parks or buries: what is not done gets its attempts anew; the log keeps the
        past.
        """
        over = ("done", "left")
        return replace(ledger, entries=tuple(e if e.state in over else replace(e, attempts=0) for e in ledger.entries))

    # -- the answer of a person ----------------------------------------------------------------------------------

    def done_by(self, entry: Entry, who: str, result: object) -> Entry:
        """`--done`: for any step but one that is done with its result."""
        return entry.moved("done", by="person", who=who, result=result, error="")

    def again(self, entry: Entry) -> Entry:
        """`--again`: for a step that is unknown, failed and `once`, or left. It runs under a new key."""
        if not (entry.once or entry.state == "left"):
            raise LedgerError(f"step {entry.name} can't be run again: it is {entry.state} and automatic")
        return entry.moved("open", by="person", turn=entry.turn + 1, attempts=0, token=0)
