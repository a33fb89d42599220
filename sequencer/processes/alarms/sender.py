"""One thread a target: it sends what it is offered, tries again, and says what fails. A slow target delays nobody."""

from __future__ import annotations

from collections.abc import Callable

from .notice import Notice
from .targets import Target

TRIES = 3
BETWEEN_S = 1.0
"""From the end of a try to the next."""
ALL_TRIES_S = 18.0
"""From the start of the first try to the end of the last: a sender's right to send lasts 30 s."""
MAX_WAITING = 100
"""Notices that wait for their target; more are refused."""


class Sender:
    """Sends notices to one target, in the order in which they are offered."""

    def __init__(self, target: Target, on_failed: Callable[[str, str], object]) -> None:
        """`on_failed(name of the target, text)` is called in the thread of the sender: once for each text, until a
        notice is taken again. The text holds no secret.
        """
        raise NotImplementedError

    def offer(self, until: float, notice: Notice, on_sent: Callable[[], object]) -> bool:
        """Send the notice soon; not if it can't be begun before `until` (of `time.monotonic`). Never waits.

        `on_sent()` is called in the thread of the sender, after the target took it. False: it is not even queued, since
        too many wait, or the sender is closed.
        """
        raise NotImplementedError

    @property
    def is_idle(self) -> bool:
        """Nothing waits, and nothing is being sent."""
        raise NotImplementedError

    def close(self) -> None:
        """Send nothing more, not even what waits. A try that is under way is not waited for; again is harmless."""
        raise NotImplementedError
