"""What the consumer's protocol asks of its shell: one dataclass for each effect."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

from ..settings.options import ClaimLimits
from ..values.message import ConsumeSummary, Message
from .outcome import Failed


@dataclass(frozen=True, slots=True)
class Exchange:
    lane: int | None
    limits: ClaimLimits = field(default_factory=ClaimLimits)
    ahead: bool = False
    alone: int = 0


@dataclass(frozen=True, slots=True)
class Ahead:
    lane: int
    limits: ClaimLimits
    after_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Flush:
    pass


@dataclass(frozen=True, slots=True)
class Wait:
    seconds: float
    lane: int | None = None
    limits: ClaimLimits = field(default_factory=ClaimLimits)


@dataclass(frozen=True, slots=True)
class Pause:
    seconds: float


Effect = Exchange | Ahead | Message | Failed | Flush | Wait | Pause


Drain = Generator[Effect, Any, ConsumeSummary]


Handler = Callable[[Message], Any]


@dataclass(slots=True)
class Control:
    """The shell's note to the generator: stop before the next message."""

    is_stopping: bool = False
