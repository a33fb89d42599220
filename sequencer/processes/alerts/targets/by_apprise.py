"""What `apprise` sends: mail, Slack, Teams, PagerDuty and many more. It is imported by the first notice.

What apprise says of a notice is all that is known: True or False. It logs URLs and keys, and so do the libraries below
it, so what is logged in the thread that sends is dropped.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ..notice import TEXT_BYTES, DeliveryFailed, Notice


@dataclass(frozen=True, slots=True, kw_only=True)
class ByApprise:
    """A service that apprise knows."""

    name: str
    url: str = field(repr=False)
    timeout_s: float
    kind: str = "apprise"

    def send(self, notice: Notice) -> None:
        """Raises DeliveryFailed, which can't say why: apprise tells that its log only, with keys."""
        with nothing_logged():
            import apprise

            service: Any = apprise.Apprise.instantiate(self.url, suppress_exceptions=True)
            if service is None:
                raise DeliveryFailed("apprise does not take its url: it knows no such service, or a part is missing")
            service.socket_connect_timeout = service.socket_read_timeout = self.timeout_s
            service.request_rate_per_sec = 0
            if service.secure_protocol == "pagerduty":  # whose own key would be made of the text
                service.dedup, service.action = hashlib.sha256(notice.incident.encode()).hexdigest(), "map"
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
