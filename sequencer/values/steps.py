"""What a step gets beside its message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class StepCall(NamedTuple):
    """One call of a step, or of its check: the second argument of their functions."""

    name: str
    key: str
    """Stable over all tries and consumers, and never that of another message: hand it to a provider, so that it knows a
    repeat as one. At most 200 characters of ASCII.
    """
    token: int
    """The fencing token of the lease."""
    attempt: int
    """1 for the first call."""
    result: Any
    """Of the step that this one comes after; None where it names none."""
    results: Mapping[str, Any]
    """What the steps that are done returned, as JSON has it, by their names."""
