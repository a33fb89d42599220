"""The steps that a program declares, and what is refused when it does. Pure.

@seq.step(order=10, once=True)
def charge(message, step): ...

@charge.check
def charged(message, step): ...
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Any, TypedDict, TypeVar

from ...errors import ConfigurationError
from ...settings.error_names import check_listed_once, error_names
from ...settings.options import timing
from ...store.ledger import MAX_STEPS, check_step_name
from ...values.checks import check_integer
from ...values.durations import Duration
from .functions import Function, checked_step, is_coroutine

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])
MAX_ORDER = 10**9
MAX_ATTEMPTS = 9999


@dataclass(eq=False, slots=True)
class Step:
    """A step that is registered. It can be called as its function: `charge(message, step)`."""

    name: str
    run: Function
    kind: str = ""
    order: int = 1
    once: bool = False
    after: tuple[str, ...] = ()
    optional: bool = False
    attempts: int | None = None  # None: `max_attempts` of the queue, or 1 if the step is optional
    retry_on: tuple[str, ...] = ()
    """Names of exceptions; another one gives the step up at once. Empty: all of them are retried."""
    never_retry: tuple[str, ...] = ()  # names of exceptions that give the step up at once
    declined: tuple[str, ...] = ()
    """Names of exceptions that say that a `once` step took no effect; they end the message."""
    timeout_s: float | None = None
    """Time limit of a call of it, or of its check; None: `handler_timeout` of the consumer."""
    backoff_s: float | None = None  # in place of the queue's `backoff`, where it failed
    asks: Function | None = None  # its check: says how a `once` step ended
    inline: bool = False  # whether a handler makes it as it goes

    def __call__(self, *arguments: Any) -> Any:
        return self.run.function(*arguments)

    def __repr__(self) -> str:
        return f"<step {self.name}>"

    def check(self, function: FunctionT) -> FunctionT:
        """Register the function that says how this `once` step ended, when nobody knows: a result, or None where
        nothing happened (a decorator). Raises ConfigurationError.
        """
        if not self.once:
            raise ConfigurationError("option_needed", name=f"{self.name}.check", needed="once=True")
        if self.asks is not None:
            raise ConfigurationError("two_checks", step=self.name)
        self.asks = checked_step(function, "check")
        return function

    def limit(self, max_attempts: int) -> int:
        """How often it may be tried until it is given up."""
        if self.attempts is not None:
            return self.attempts
        return 1 if self.optional and not self.inline else max_attempts


@dataclass(slots=True)
class Steps:
    kind_by: str | None = None
    kinds: dict[str, dict[str, Step]] = field(default_factory=dict)
    """Kind -> name -> step, as they were registered; the kind is "" without `kind_by`."""

    def __bool__(self) -> bool:
        return bool(self.kinds)

    def ordered(self, kind: str) -> tuple[Step, ...]:
        """The steps of a kind, in the order of a pass."""
        return tuple(sorted(self.kinds.get(kind, {}).values(), key=lambda step: step.order))

    def kind_of(self, body: Any) -> str:
        """The kind of a message with this body; "" where its field is missing, or neither text nor a whole number."""
        if self.kind_by is None:
            return ""
        found = body
        is_field = isinstance(body, Mapping) and self.kind_by in body
        for name in [self.kind_by] if is_field else self.kind_by.split("."):
            found = found.get(name) if isinstance(found, Mapping) else None
        return str(found) if isinstance(found, str | int) and not isinstance(found, bool) else ""

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys(step.name for step in self._all))

    @property
    def _all(self) -> list[Step]:
        return [step for steps in self.kinds.values() for step in steps.values()]

    @property
    def has_coroutines(self) -> bool:
        return any(is_coroutine(step.run) or (step.asks and is_coroutine(step.asks)) for step in self._all)

    @property
    def timeouts_s(self) -> list[float]:
        return [step.timeout_s for step in self._all if step.timeout_s is not None]

    def add(self, step: Step) -> Step:
        if (self.kind_by is None) == bool(step.kind):
            raise ConfigurationError("kind_mismatch", step=step.name, kind=step.kind, field=self.kind_by)
        known = self.kinds.get(step.kind, {})
        if step.name in known:
            raise ConfigurationError("two_steps", step=step.name, kind=step.kind)
        if len(known) >= MAX_STEPS:
            raise ConfigurationError("one_step_too_many", step=step.name, most=MAX_STEPS)
        self.kinds[step.kind] = {**known, step.name: step}
        return step

    def check(self) -> None:
        """What shows only when all steps are registered. Raises ConfigurationError."""
        for steps in self.kinds.values():
            for step in steps.values():
                for name in step.after:
                    if name not in steps:
                        raise ConfigurationError("after_unknown", step=step.name, after=name, steps=sorted(steps))
                    if steps[name].optional and not step.optional:
                        raise ConfigurationError("after_optional", step=step.name, after=name)
            try:
                TopologicalSorter({name: step.after for name, step in steps.items()}).prepare()
            except CycleError as error:
                raise ConfigurationError("after_itself", step=error.args[1][0]) from None


class StepOptions(TypedDict, total=False):
    """What a program says of a step: see `Registered.step`."""

    order: int
    once: bool
    after: str | Step | Sequence[str | Step]
    optional: bool
    attempts: int | None
    retry_on: Sequence[type[BaseException] | str]
    never_retry: Sequence[type[BaseException] | str]
    declined: Sequence[type[BaseException] | str]
    timeout: Duration | None
    backoff: Duration | None
    name: str | None


def new_step(
    function: Callable[..., Any], *, kind: Any = "", name: Any = None, after: Any = (), **options: Any
) -> Step:
    """A step from what a program wrote. Raises ConfigurationError."""
    run = checked_step(function, "step")
    called = getattr(function, "__name__", "") if name is None else name
    check_step_name(called)
    named = [after] if isinstance(after, str | Step) else after
    if not isinstance(named, list | tuple) or not all(isinstance(one, str | Step) for one in named):
        raise ConfigurationError("after_invalid", step=called, value=after)
    before = tuple(dict.fromkeys(one.name if isinstance(one, Step) else one for one in named if one))
    if not isinstance(kind, str):
        raise ConfigurationError("kind_invalid", step=called, value=kind)
    lists = {option: error_names(option, options.get(option, ())) for option in ("retry_on", "never_retry", "declined")}
    check_listed_once(lists)
    timeout_s, backoff_s = timing(called, options.pop("timeout", None), options.pop("backoff", None))
    times = {"timeout_s": timeout_s, "backoff_s": backoff_s}
    step = Step(called, run, kind, after=before, **{**options, **lists, **times})
    check_integer(f"{called}.order", step.order, -MAX_ORDER, MAX_ORDER)
    for option, value in (("once", step.once), ("optional", step.optional)):
        if not isinstance(value, bool):
            raise ConfigurationError("flag_invalid", name=f"{called}.{option}", value=value)
    if step.attempts is not None:
        check_integer(f"{called}.attempts", step.attempts, 1, MAX_ATTEMPTS)
    if step.declined and not step.once:
        raise ConfigurationError("option_needed", name=f"{called}.declined", needed="once=True")
    return step
