"""The steps that a program declares, and what is refused when it does. Pure.

@seq.step(order=10, once=True)
def charge(message, step): ...

@charge.check
def charged(message, step): ...
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypedDict, TypeVar

from ...errors import ConfigurationError, shown
from ...settings.error_names import error_names
from ...store.ledger import MAX_STEPS, check_step_name
from ...values.checks import check_integer
from ...values.message import Message

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])
MAX_ORDER = 10**9
MAX_ATTEMPTS = 9999


@dataclass(frozen=True, slots=True)
class Function:
    """A function of a step or of its check."""

    function: Callable[..., Any]
    takes_call: bool = True
    """Whether it takes the StepCall besides its message."""

    def __call__(self, message: Any, call: Any) -> Any:
        return self.function(message, call) if self.takes_call else self.function(message)


Checked = Callable[[Callable[..., Any], str], Function]
"""Says whether a function can be a step or a check, and what it takes. Raises ConfigurationError."""


@dataclass(eq=False, slots=True)
class Step:
    """A step that is registered. It can be called as its function: `charge(message, step)`."""

    name: str
    run: Function
    kind: str = ""
    order: int = 1
    once: bool = False
    after: tuple[str, ...] = ()
    """Names of the steps that have to be done before."""
    optional: bool = False
    attempts: int | None = None
    """None: `max_attempts` of the queue, or 1 if the step is optional."""
    retry_on: tuple[str, ...] = ()
    """Names of exceptions; another one gives the step up at once. Empty: all of them are retried."""
    never_retry: tuple[str, ...] = ()
    """Names of exceptions that give the step up at once."""
    declined: tuple[str, ...] = ()
    """Names of exceptions that say that a `once` step took no effect; they end the message."""
    checked: Checked | None = None
    asks: Function | None = None
    """Its check: says how a `once` step ended."""
    inline: bool = False
    """Whether a handler makes it as it goes."""

    def __call__(self, *arguments: Any) -> Any:
        return self.run.function(*arguments)

    def __repr__(self) -> str:
        return f"<step {self.name}>"

    @property
    def has_check(self) -> bool:
        return self.asks is not None

    def check(self, function: FunctionT) -> FunctionT:
        """Register the function that says how this `once` step ended, when nobody knows: a result, or None where
        nothing happened (a decorator). Raises ConfigurationError.
        """
        if not self.once:
            raise ConfigurationError(f"step {self.name} is not once, so it needs no check; add once=True, or leave it")
        if self.asks is not None:
            raise ConfigurationError(f"step {self.name} has a check already")
        assert self.checked is not None
        self.asks = self.checked(function, f"check of step {self.name}")
        return function

    def limit(self, max_attempts: int) -> int:
        """How often it may be tried until it is given up."""
        if self.attempts is not None:
            return self.attempts
        return 1 if self.optional else max_attempts


@dataclass(frozen=True, slots=True)
class InlineHandler:
    """A handler that runs steps as it goes: it takes the message, and InlineSteps."""

    function: Callable[..., Any]

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)


class PassWatcher(Protocol):
    """Is told what passes do, by the thread that runs steps."""

    def begun(self, message: Message) -> None:
        """A pass over it begins."""

    def noted(self, names: Sequence[str]) -> None:
        """What became of these steps is in the server."""

    def ended(self, message: Message, *, is_finished: bool) -> None:
        """The pass is over; the server is told of it later."""


@dataclass(slots=True)
class Steps:
    """All steps of one client."""

    kind_by: str | None = None
    kinds: dict[str, dict[str, Step]] = field(default_factory=dict)
    """Kind -> name -> step, as they were registered; the kind is "" without `kind_by`."""
    watcher: PassWatcher | None = None
    """Of tests, which end a process where it is told something."""

    def __bool__(self) -> bool:
        return bool(self.kinds)

    def ordered(self, kind: str) -> tuple[Step, ...]:
        """The steps of a kind, in the order in which a pass looks at them."""
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
        """Of all steps, each once."""
        return list(dict.fromkeys(name for steps in self.kinds.values() for name in steps))

    def add(self, step: Step) -> Step:
        """Register a step. Raises ConfigurationError."""
        if self.kind_by is None and step.kind:
            raise ConfigurationError(
                f"step {step.name} is for kind {shown(step.kind)}, and the queue has no kind_by; name the field"
            )
        if self.kind_by is not None and not step.kind:
            raise ConfigurationError(
                f"step {step.name} names no kind, and the queue has kind_by={self.kind_by!r}; "
                f"write @seq.step('kind', ...)"
            )
        known = self.kinds.get(step.kind, {})
        if step.name in known:
            raise ConfigurationError(
                f"there are two steps {step.name}{_of(step)}; give one of them another name: @seq.step(name='...')"
            )
        if len(known) >= MAX_STEPS:
            raise ConfigurationError(f"step {step.name}{_of(step)} is one too many: at most {MAX_STEPS} are allowed")
        steps = {**known, step.name: step}
        for one in steps.values():
            _check_after(one, steps)
        self.kinds[step.kind] = steps
        return step

    def check(self) -> None:
        """What shows only when all steps are registered. Raises ConfigurationError."""
        for steps in self.kinds.values():
            for step in steps.values():
                if unknown := [name for name in step.after if name not in steps]:
                    raise ConfigurationError(
                        f"step {step.name}{_of(step)} is after {unknown[0]}, which is no step; "
                        f"there are {', '.join(sorted(steps))}"
                    )


def _of(step: Step) -> str:
    return f" of kind {step.kind}" if step.kind else ""


def _check_after(step: Step, steps: Mapping[str, Step]) -> None:
    if leads_to_itself(step, steps):
        raise ConfigurationError(f"step {step.name} comes after itself")
    for name in step.after if not step.optional else ():
        if name in steps and steps[name].optional:
            raise ConfigurationError(
                f"step {step.name} is required and comes after {name}, which is optional; make both of them optional"
            )


def leads_to_itself(step: Step, steps: Mapping[str, Step]) -> bool:
    """Whether `after` leads from a step back to it."""
    reached, todo = set[str](), [*step.after]
    while todo:
        if (name := todo.pop()) in steps and name not in reached:
            reached.add(name)
            todo += steps[name].after
    return step.name in reached


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
    name: str | None


def new_step(
    run: Function,
    *,
    checked: Checked,
    kind: Any = "",
    order: Any = 1,
    once: Any = False,
    after: Any = (),
    optional: Any = False,
    attempts: Any = None,
    retry_on: Any = (),
    never_retry: Any = (),
    declined: Any = (),
    name: Any = None,
) -> Step:
    """A step from what a program wrote. Raises ConfigurationError."""
    called = getattr(run.function, "__name__", "") if name is None else name
    check_step_name(called)
    check_integer(f"step {called}: order", order, -MAX_ORDER, MAX_ORDER)
    for option, value in (("once", once), ("optional", optional)):
        if not isinstance(value, bool):
            raise ConfigurationError(f"step {called}: {option}={shown(value)} must be True or False")
    if attempts is not None:
        check_integer(f"step {called}: attempts", attempts, 1, MAX_ATTEMPTS)
    named = [after] if isinstance(after, str | Step) else after
    if not isinstance(named, list | tuple) or not all(isinstance(one, str | Step) for one in named):
        raise ConfigurationError(f"step {called}: after={shown(after)} must be the name of a step, or a list of names")
    before = tuple(dict.fromkeys(one.name if isinstance(one, Step) else one for one in named if one))
    if not isinstance(kind, str):
        raise ConfigurationError(f"step {called}: kind={shown(kind)} must be text")
    on, never = error_names("retry_on", retry_on), error_names("never_retry", never_retry)
    for both in set(on) & set(never):
        raise ConfigurationError(f"step {called}: {both} stands in retry_on and in never_retry; leave it in one")
    refused = error_names("declined", declined)
    if refused and not once:
        raise ConfigurationError(f"step {called}: declined needs once=True; for other steps use never_retry")
    for both in set(refused) & {*on, *never}:
        raise ConfigurationError(f"step {called}: {both} is in declined and in another list; leave it in one")
    return Step(called, run, kind, order, once, before, optional, attempts, on, never, refused, checked)
