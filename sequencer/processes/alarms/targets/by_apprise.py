"""What `apprise` sends: mail, Slack, Teams and many more. It is imported by the first notice, in the sender's thread.

What apprise says of a notice is all that is known: True or False. It logs URLs and keys, and so do the libraries below
it, so what is logged in the thread that sends is dropped.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ..notice import TEXT_BYTES, DeliveryFailed, Notice

SCHEMES: dict[str, tuple[str, ...]] = {
    "slack": ("slack", "https"),
    "teams": ("workflows", "workflow", "msteams", "https"),
    "mail": ("mailto", "mailtos"),
    "telegram": ("tgram",),
    "discord": ("discord", "https"),
    "apprise": (),
}
"""Types, with how their URLs begin; of "apprise" as its services have it. `https` is a service's own webhook URL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ByApprise:
    """A service that apprise knows."""

    name: str
    kind: str
    url: str = field(repr=False)
    timeout_s: float

    def send(self, notice: Notice) -> None:
        """Raises DeliveryFailed, which can't say why: apprise tells that its log only, with keys."""
        started = time.monotonic()
        with nothing_logged():
            import apprise

            if time.monotonic() > started + self.timeout_s:  # the sender has given up, and will try again
                raise DeliveryFailed(f"apprise took longer than {self.timeout_s:g} s to load")
            service: Any = apprise.Apprise.instantiate(self.url, suppress_exceptions=True)
            if service is None:
                raise DeliveryFailed("apprise does not take its url: it knows no such service, or a part is missing")
            service.socket_connect_timeout = service.socket_read_timeout = self.timeout_s
            service.request_rate_per_sec = 0
            title, *lines = notice.chat_text(min(TEXT_BYTES, service.body_maxlen)).split("\n")
            kinds = {"resolved": apprise.NotifyType.SUCCESS, "test": apprise.NotifyType.INFO}
            is_taken = service.notify(
                title=title,
                body="\n".join(lines),
                notify_type=kinds.get(notice.what, apprise.NotifyType.FAILURE),
                body_format=apprise.NotifyFormat.TEXT,
            )
        if not is_taken:
            raise DeliveryFailed("apprise says that it was not taken")


@contextmanager
def nothing_logged() -> Iterator[None]:
    """Within, the handlers of the log drop what this thread says."""
    own, handlers = threading.get_ident(), [*logging.getLogger().handlers]

    def is_of_others(record: logging.LogRecord) -> bool:
        return record.thread != own

    for handler in handlers:
        handler.addFilter(is_of_others)
    try:
        yield
    finally:
        for handler in handlers:
            handler.removeFilter(is_of_others)
