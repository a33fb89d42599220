"""Reads `[targets.NAME]` of the file of `run`: where notices go. What is wrong in it is one sentence.

A target is made and checked here, and not reached: nothing is sent before its first notice.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any, Protocol

from .notice import Notice


class Target(Protocol):
    """Where notices go. One thread at a time sends by it."""

    @property
    def name(self) -> str:
        """As the file calls it."""

    @property
    def kind(self) -> str:
        """The word of `type`."""

    @property
    def timeout_s(self) -> float:
        """How long one try may take."""

    def send(self, notice: Notice) -> None:
        """Returns once the receiver said that it has the notice. Raises DeliveryFailed."""


def read_target(name: str, table: Any, *, directory: Path = Path(), hidden: Collection[str] = ()) -> Target:
    """The target that a table of the file describes. Raises ConfigurationError, in one sentence, without a secret.

    `directory`: of the file; a command runs there. `hidden`: variables that a command is not given: `variables_in`.
    """
    raise NotImplementedError


def variables_in(table: Any) -> frozenset[str]:
    """The variables that a file names by `env:NAME`, wherever in it."""
    raise NotImplementedError
