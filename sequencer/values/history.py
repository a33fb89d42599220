"""One message, while it is pending and after its end; and how much history is kept. Data only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from .message import Failure, Message, PastAttempt

Outcome = Literal["finished", "failed", "skipped", "dropped", "cancelled", "replaced", "purged", "swept"]
"""How a message ended. "failed": finished, but optional steps failed. "purged" and "swept": a dead letter deleted by an
operator or by `sweep`."""
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
MessageState = Literal["due", "behind", "leased", "delayed", "waiting", "paused", "parked", "dead", "handled"] | Outcome
StepState = Literal["open", "started", "done", "failed", "left"]
Status = Literal["pending", "running", "finished", "error"]
"""The state of a message in one of four words."""
RERUN_OF = "sequencer-rerun-of"
"""The header that names the message that this one was made of by `rerun`."""
_STATUSES: dict[MessageState, Status] = {
    "leased": "running",
    **dict.fromkeys(("parked", "dead", "skipped", "dropped", "purged", "swept"), "error"),
    **dict.fromkeys(("handled", "finished", "failed", "cancelled", "replaced"), "finished"),
}
"""Of states; any other is pending."""


@dataclass(frozen=True, slots=True)
class MessageInfo:
    """One message as the server has it at one moment."""

    id: str
    group: tuple[str, ...]
    state: MessageState
    """"delayed": before its own time; "behind": due, and not the first of its group; "waiting": its group backs off or
    waits for a number or a window; "dead": a dead letter; "handled": known by the dedup window, with no content: it
    was handled, dropped, skipped or purged; how it ended, where the queue keeps a history."""
    due_in_s: float | None = None
    """Seconds until it is due, 0 if it is; None if it will not be handled without an operator."""
    attempts: int = 0
    """Attempts since it was last resumed or redriven; with steps, those of the step with the most, in all."""
    error: Failure | None = None
    message: Message | None = None
    status: Status = field(init=False)
    """The state in one of four words: "error" waits for an operator, or was discarded."""
    appended_at: float | None = None
    """Seconds since 1970 by the server's clock, as are the next two."""
    began_at: float | None = None
    """When its handler began for the last time; of one that ended, where that is known. Of one that is running, when
    its group was claimed: its handler began later, by as long as the messages before it took."""
    finished_at: float | None = None
    """When it ended."""
    consumer: str = ""
    """The consumer that handled it last."""
    kind: str = ""
    note: str = ""
    """What else is to be said of its end: the error with which it was given up, or died; of one that is only known by
    its id, what may have become of it.
    """
    steps: MessageSteps | None = None
    """What became of its steps, as far as that was noted; None where none was. Of one that ended, they, `message` and
    `error` (its last, before it was handled) are known where the queue has `history_bodies`, as are the next two."""
    rerun_of: str = ""
    """The id of the message from which `rerun` made this one."""
    rerun_as: str = ""
    """The id under which `rerun` appended it again."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "status", _STATUSES.get(self.state, "pending"))

    @classmethod
    def of(cls, message: Message, state: MessageState, **more: Any) -> MessageInfo:
        """Of a message whose content is known."""
        rerun_of = message.headers.get(RERUN_OF, "")
        known: dict[str, Any] = {"message": message, "appended_at": message.appended_at, "rerun_of": rerun_of}
        return cls(message.id, message.group, state, **known, **more)


@dataclass(frozen=True, slots=True)
class HistoryInfo:
    """How far back the history of a queue goes."""

    window_s: float
    """How far it should reach."""
    reaches_s: float
    """How far it reaches: less if it is younger, or if its cap dropped the oldest part; the least of all shards."""
    messages: int
    """How many messages it has, in all shards."""


@dataclass(frozen=True, slots=True)
class Swept:
    """What `sweep` deleted."""

    history: int
    """Messages of the history that were older than its window, or above its cap."""
    dead: int
    """Dead letters that were older than `dead_window`, or above `dead_cap`."""


@dataclass(frozen=True, slots=True)
class StepInfo:
    """The outcome of one step of a message."""

    name: str
    state: StepState
    """`started`: it runs, or its outcome is unknown; `left`: an optional one that was abandoned."""
    once: bool
    optional: bool
    attempts: int
    """How often it was called in total; a started call counts."""
    turn: int
    """1, plus one for each `again`."""
    at: float | None
    """When it last moved, in seconds since 1970."""
    took_s: float
    who: str
    """Who marked it as done, or ""."""
    result: Any
    error: str
    """Its last error; for a step that is done, why its result could not be kept."""
    key: str
    """Its idempotency key for a provider."""


@dataclass(frozen=True, slots=True)
class MessageSteps:
    """The outcome of the steps of a message: of those that began, or are open."""

    id: str
    group: tuple[str, ...]
    is_dead: bool
    """Whether the message is a dead letter."""
    steps: tuple[StepInfo, ...]
    failures: tuple[PastAttempt, ...]
    """The last five, the oldest first."""
    questions: tuple[str, ...]
    """Required `once` steps that began or failed, and wait for an operator's answer."""
    unreadable: str = ""
    """Why the ledger can't be read, or ""."""

    @property
    def results(self) -> dict[str, Any]:
        """The results of the steps that are done."""
        return {step.name: step.result for step in self.steps if step.state == "done" and step.result is not None}

    @property
    def said(self) -> str:
        """Each step and its state, in one line."""
        return ", ".join(f"{step.name} {step.state}" for step in self.steps)


class Skipped(Message):
    """The message that `skip` removed: a Message with its steps."""

    steps: MessageSteps | None = None
    """Their outcome, if any began. Not a field of the tuple."""

    @classmethod
    def of(cls, message: Message, steps: MessageSteps | None) -> Skipped:
        """This message with these steps."""
        skipped = cls(*message)
        skipped.steps = steps
        return skipped
