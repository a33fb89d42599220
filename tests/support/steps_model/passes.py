"""One pass over the open steps of a message, as a pure function: what was heard in, the next action out.

    state, action = next_action(begin(app, facts, ledger), Began())
    state, action = next_action(state, Returned({"payment": "p9"}))

The caller carries out the action and says what came of it. The last action is an Ack, a Nack, a Release or a Lost.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from .actions import (
    UNCONFIRMED,
    Ack,
    Action,
    Answered,
    Began,
    Call,
    Check,
    Event,
    Facts,
    Failure,
    Lost,
    Nack,
    Note,
    Raised,
    Release,
    Returned,
)
from .declared import App, Step
from .ledger import Entry, Ledger, key
from .rules import Rules

RULES = Rules()


@dataclass(frozen=True)
class Pass:
    """Where a pass stands."""

    app: App
    facts: Facts
    ledger: Ledger
    """As it is known here; `noted` is what the server has."""
    noted: Ledger
    rules: Rules = RULES
    called: frozenset[str] = frozenset()
    checked: frozenset[str] = frozenset()
    doing: str = ""
    """The step whose call or check is on its way."""
    starting: str = ""
    """The step whose start is being noted."""
    has_progressed: bool = False
    """A step became done since the last write."""
    ending: str = ""
    """What a step asked for its message: park or dead."""
    reason: str = ""
    delays: tuple[int, ...] = ()
    is_outage: bool = False
    has_found: bool = False
    """A check of this pass said that its step is done."""
    is_stopping: bool = False
    lost: int | None = None

    @property
    def steps(self) -> tuple[Step, ...]:
        return self.app.steps(self.facts.kind)

    def entry(self, name: str) -> Entry:
        found = self.ledger.get(name)
        assert found is not None, name
        return found


def begin(app: App, facts: Facts, ledger: Ledger | None, rules: Rules = RULES) -> Pass:
    """A pass before its first action. `ledger`: what the record has, None for a message without."""
    before = ledger or Ledger(facts.stamp)
    joined = rules.joined(before, app.steps(facts.kind))
    return Pass(app, facts, joined, joined, rules)


def stopped(state: Pass) -> Pass:
    """A stop signal came. It is looked at between steps, before the start of the next one is noted."""
    return replace(state, is_stopping=True)


def next_action(state: Pass, event: Event) -> tuple[Pass, Action]:
    """What to do after what was heard."""
    heard = _hear(state, event)
    return _decide(heard)


# -- what was heard ------------------------------------------------------------------------------------------------


def _hear(state: Pass, event: Event) -> Pass:
    if isinstance(event, Answered):
        if event.code not in (1, UNCONFIRMED):
            return replace(state, lost=event.code)
        starting = state.starting
        state = replace(state, noted=state.ledger, has_progressed=False, starting="")
        return _unconfirmed(state, starting) if event.code == UNCONFIRMED and starting else state
    if isinstance(event, Began):
        return state
    step = next(one for one in state.steps if one.name == state.doing)
    is_check = state.doing not in state.called
    state = replace(state, doing="", checked=state.checked | {step.name} if is_check else state.checked)
    return _checked(state, step, event) if is_check else _ran(state, step, event)


def _unconfirmed(state: Pass, name: str) -> Pass:
    """The step is not called in this pass; others go on. An outage: it is retried, and nothing is counted."""
    if not state.rules.waits_for_replicas():
        return state
    state = _put(state, state.rules.unconfirmed(state.entry(name)))
    return replace(state, called=state.called | {name}, is_outage=True, reason="unconfirmed")


def _ran(state: Pass, step: Step, event: Returned | Raised) -> Pass:
    entry = state.entry(step.name)
    if isinstance(event, Returned):
        return _put(
            state, entry.moved("done", attempts=entry.attempts + 1, result=event.result, error=""), has_progressed=True
        )
    if event.error == "result":
        done = entry.moved("done", attempts=entry.attempts + 1, error=event.error)
        state, ending = _put(state, done, has_progressed=True), state.rules.lost_result(done)
        return replace(state, ending=ending, reason=event.error) if ending else state
    state = _told(state, event, entry)
    counts = state.facts.outages >= state.facts.counts_outage
    after = state.rules.raised(step, entry, event.error, state.app.limit(step), counts=counts)
    ending = state.rules.stops_pass(step, entry, event.error, state.app)
    return replace(_put(state, after), ending=ending, reason=event.error)


def _checked(state: Pass, step: Step, event: Returned | Raised) -> Pass:
    entry = state.entry(step.name)
    if isinstance(event, Raised):
        counts = state.facts.outages >= state.facts.counts_outage
        return _put(_told(state, event, entry), state.rules.check_raised(entry, event.error, counts=counts))
    if event.result is None:
        return _put(state, entry.moved("open", token=0))
    done = entry.moved("done", result=event.result, error="")
    return replace(_put(state, done, has_progressed=True), has_found=True)


def _told(state: Pass, event: Raised, entry: Entry) -> Pass:
    delays = state.delays if event.after is None else (*state.delays, event.after)
    is_outage = state.is_outage or state.rules.is_outage(entry, event.error)
    return replace(state, ledger=state.ledger.logged(event.error), delays=delays, is_outage=is_outage)


def _put(state: Pass, entry: Entry, *, has_progressed: bool = False) -> Pass:
    return replace(state, ledger=state.ledger.put(entry), has_progressed=state.has_progressed or has_progressed)


# -- what to do ------------------------------------------------------------------------------------------------------


def _decide(state: Pass) -> tuple[Pass, Action]:
    if state.lost is not None:
        return state, Lost(state.lost)
    if (before := _before(state)) is not None:
        return before
    is_over = state.ending or (state.reason and not state.rules.goes_on(state.reason))
    step = None if is_over else _next_step(state)
    if step is None:
        return _end(state)
    rules, entry = state.rules, state.entry(step.name)
    is_begun = entry.state == "started" and entry.token == state.facts.token
    if state.is_stopping and rules.stops_before(entry, is_begun=is_begun):
        return state, Release() if state.ledger == state.noted else _note(state)
    is_check = rules.may_check(step, entry, state.app.limit(step), state.facts.token)
    if entry.once and not is_check and not is_begun:
        state = _put(state, entry.moved("started", token=state.facts.token))
        if rules.waits_for_start():
            return replace(state, starting=step.name), _note(state, step.name)
    elif state.ledger != state.noted and rules.waits_for_end():
        return state, _note(state)
    name = key("q", state.facts.group, state.facts.id, state.ledger.stamp, entry)
    if is_check:
        return replace(state, doing=step.name), Check(step.name, name)
    state = replace(state, doing=step.name, called=state.called | {step.name})
    return state, Call(step.name, name, state.ledger.results, entry.once)


def _before(state: Pass) -> tuple[Pass, Action] | None:
    """What keeps a pass from its first step."""
    facts, app, rules = state.facts, state.app, state.rules
    if state.called:
        return None
    if facts.given_up:
        return _give_up(state, facts.given_up_as, facts.given_up)
    if rules.has_killed(facts.unanswered, app.max_attempts) and not state.has_found:
        return _give_up(state, app.on_failure, "lease expired")
    if rules.without_result(state.ledger):
        return _give_up(state, "park", "result")
    is_unknown = facts.kind not in app.kinds
    missing = tuple(rules.missing(state.ledger, state.steps, app))
    if not is_unknown and not missing:
        return None
    reason = "unknown kind" if is_unknown else "step missing"
    if not facts.has_waited:
        return state, Nack(state.noted, False, "", Failure(reason, missing=missing), is_missing=True)
    return _give_up(state, rules.ending_of_unknown(app, state.ledger) if is_unknown else "park", reason, missing)


def _next_step(state: Pass) -> Step | None:
    """The first step that can be called or checked in this pass, in the order of the steps."""
    rules, token = state.rules, state.facts.token
    for step in state.steps:
        entry, limit = state.entry(step.name), state.app.limit(step)
        if step.name in state.called:
            continue
        is_begun = entry.state == "started" and not rules.is_unknown(entry, token)
        may_run = is_begun or rules.is_open(entry, limit)
        may_check = rules.may_check(step, entry, limit, token) and step.name not in state.checked
        if (may_run and rules.may_begin(step, state.ledger)) or may_check:
            return step
    return None


def _note(state: Pass, start: str = "") -> Note:
    return Note(state.rules.written(state.ledger), state.has_progressed, start)


def _end(state: Pass) -> tuple[Pass, Action]:
    """Nothing can be called any more in this pass."""
    rules, app, token = state.rules, state.app, state.facts.token
    ended_once = [e for e in state.ledger.entries if e.once and e.name in state.called and e != state.noted.get(e.name)]
    if any(entry.state in ("done", "left") for entry in ended_once):
        return state, _note(state)  # the end of a `once` step is waited for, the last one's too
    if state.ending:
        return _give_up(state, state.ending, state.reason)
    ledger = rules.closed(state.ledger, state.steps, app, token)
    state = replace(state, ledger=ledger)
    if rules.is_finished(ledger, state.steps):
        return state, Ack(rules.written(ledger), bool(rules.failures(ledger)))
    if not any(rules.can_be_tried(step, ledger, state.steps, app, token) for step in state.steps):
        return _give_up(state, app.on_failure, state.reason or "failed")
    most = max(entry.attempts for entry in ledger.entries)
    delay = min(state.delays) if state.delays else 2 ** max(most - 1, 0)
    failure = Failure(state.reason or "failed")
    written = rules.written(ledger)
    return state, Nack(written, state.has_progressed, "", failure, delay, is_outage=state.is_outage)


def _ask(state: Pass) -> tuple[Pass, Action] | None:
    """The check of a step that a person would be asked about. One that was called in this pass is not asked so soon."""
    rules, facts, most = state.rules, state.facts, state.app.max_attempts
    for step in state.steps:
        is_new = step.name not in state.called | state.checked
        if is_new and rules.may_ask(step, state.ledger, facts.unanswered, most):
            if state.is_stopping:
                return state, Release() if state.ledger == state.noted else _note(state)
            if state.ledger != state.noted:
                return state, _note(state)
            name = key("q", facts.group, facts.id, state.ledger.stamp, state.entry(step.name))
            return replace(state, doing=step.name), Check(step.name, name)
    return None


def _give_up(state: Pass, ending: str, reason: str, missing: tuple[str, ...] = ()) -> tuple[Pass, Action]:
    """No pass will go on by itself. A required `once` step without a known end: its check is asked, then a person."""
    if (asking := _ask(state)) is not None:
        return asking
    rules = state.rules
    questions = tuple(rules.questions(state.ledger, reason))
    if questions:
        ending = state.app.on_unresolved
    ledger = state.ledger if ending == "drop" else rules.fresh(state.ledger)
    return state, Nack(rules.written(ledger), state.has_progressed, ending, Failure(reason, questions, missing))
