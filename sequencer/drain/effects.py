"""What the consumer's protocol asks of its shell: one dataclass for each effect.

    effect                  what the shell does                                                   answer
    ------                  -------------------                                                   ------
    SettleAndClaim(shard, limits)
                            settle everything held and, unless shard is None, claim from it, in    Claimed, already held
                            one round trip: this many messages, or `alone` of a group that is due
                            alone, if that is more. If a claim is on its way, that is what comes;
                            with `ahead` the next one sets out then
    Ahead(shard, limits, after_s)
                            send a claim, unless one is on its way, and wait for nothing; in      None
                            `after_s` from now, or never, if a SettleAndClaim comes before. A
                            shell may leave it out
    Handle(message)         run the handler. One object serves for a group:          None, or what it raised
                            its message changes
    Run(message, function, call)
                            call this function of a step or its check; `is_begun`: though the     Returned, or Raised
                            consumer is interrupted, as its start is noted. Or a handler of
                            batches, with a Batch that begins with the message. Or a handler, with
                            InlineSteps: with their `perform`, which the shell sets, the effects
                            of its steps are done meanwhile. `timeout_s`: of this call, in place
                            of the consumer's
    Note(group, written)    write the ledger of the group's current message into its record,      see InFlight.note
                            behind the acknowledgements of the group, and wait for the answer;
                            with `wait` (replicas, ms) for theirs, too
    Tell(name, message, fields)
                            tell this event of the message                                        None
    Failed                  tell what a message failed with and what becomes of it, before the    None
                            server learns it; of an outage, behind that
    Locked(act)             call it while no other thread uses what is held                       what it returned
    Flush(is_awaited)       put what is finished into the pending acks, and send that and the           None
                            renewals that are due; perhaps wait until it is answered
    Wait(seconds, shard, limits)
                            sleep until a dispatch hint, at most so long, and unless shard is      Claimed, already
                            held,
                            None claim from it right then                                         or None
    Sleep(seconds)          sleep without asking the server; unless `is_whole`, a stop ends it    None

With shard None, Wait may be answered with the number of the shard that the hint was for.
SettleAndClaim, Ahead, Flush, Note and Wait raise ServerUnavailable into the generator.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..settings.options import ClaimLimits, Replicas
from ..store.ledger import Written
from ..values.batch import Batch
from ..values.message import ConsumeSummary, Message, StepCall
from .held_group import HeldGroup
from .outcome import Failed
from .steps.functions import Function
from .steps.inline import InlineSteps

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class SettleAndClaim:
    shard: int | None
    limits: ClaimLimits = field(default_factory=ClaimLimits)
    ahead: bool = False
    alone: int = 0


@dataclass(frozen=True, slots=True)
class Ahead:
    shard: int
    limits: ClaimLimits
    after_s: float = 0.0


@dataclass(slots=True)
class Handle:
    """Not frozen: one for each message would cost 0.1 us a message, one that is reused costs a tenth of that."""

    message: Message


@dataclass(frozen=True, slots=True)
class Run:
    message: Message
    function: Function
    call: StepCall | InlineSteps | Batch
    is_check: bool = False
    is_begun: bool = False
    timeout_s: float | None = None

    @property
    def step(self) -> str:
        """The name of the step, "" for a handler."""
        return self.call.name if isinstance(self.call, StepCall) else ""

    @property
    def failing(self) -> Message:
        """The message whose failure it is, if it fails now."""
        return self.call.failing if isinstance(self.call, Batch) else self.message


@dataclass(frozen=True, slots=True)
class Note:
    group: HeldGroup
    written: Written
    has_progressed: bool
    wait: Replicas = None


@dataclass(frozen=True, slots=True)
class Tell:
    name: str
    message: Message
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Locked:
    act: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Flush:
    is_awaited: bool = False


@dataclass(frozen=True, slots=True)
class Wait:
    seconds: float
    shard: int | None = None
    limits: ClaimLimits = field(default_factory=ClaimLimits)


@dataclass(frozen=True, slots=True)
class Sleep:
    seconds: float
    is_whole: bool = False


Effect = SettleAndClaim | Ahead | Handle | Run | Note | Tell | Failed | Locked | Flush | Wait | Sleep
Drain = Generator[Effect, Any, ConsumeSummary]


def handled(message: Message, took_s: float) -> Tell:
    return Tell("message handled", message, {"attempt": message.attempt, "took_s": took_s})
