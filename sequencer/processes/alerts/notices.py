"""Makes a notice of what is to be told: of an incident of a queue, or of a server that is away. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ...calls.alerts import Grant
from ...queue.alerts.conditions import commands_for, unit_of
from ...queue.alerts.incidents import key_of
from ...queue.alerts.pending_news import NamedHead, News, heads_in
from ...texts.words import error_text, named
from .notice import Item, Notice


class Origin(NamedTuple):
    """Where something is told of."""

    namespace: str
    environment: str
    host: str
    """Who tells."""
    file: str = ""
    """Of `run` or `watch`."""
    apps: Mapping[str, str] = {}
    """Of the queues that the file has an app for."""


def notice_of(
    origin: Origin,
    queue: str,
    grant: Grant,
    news: News | None = None,
    errors: Mapping[str, int] | None = None,
    *,
    texts: bool = True,
    shown_by: str = "",
) -> Notice:
    """Of an incident. `news`: the heads that it names, if any; an incident that is only sent when it is over names what
    it was. `errors`: how many groups each type of error parked. `shown_by`: the queue by which to check a server that
    is away, where `queue` is "".
    """
    kind, _, host = grant.kind.partition("@")
    heads = heads_in(grant.heads) if news is None else news.heads_of(kind)
    count = 0 if news is None else news.counts().get(kind, 0)
    app = origin.apps.get(queue, "")
    return Notice(
        incident=key_of(origin.namespace, queue, grant.kind, grant.opened_us),
        number=grant.number,
        what=grant.what,
        namespace=origin.namespace,
        queue=queue,
        kind=kind,
        environment=origin.environment,
        host=host or origin.host,
        opened_at=grant.opened_us / 1e6,
        at=grant.now_us / 1e6,
        value=float(grant.value) if grant.value else None,
        limit=float(grant.limit) if grant.limit else None,
        unit=unit_of(kind),
        text=f"it was over before this could be told: {grant.text}" if grant.is_late else grant.text,
        errors=tuple((errors or {}).items()),
        items=tuple(_item(head, texts=texts) for head in heads),
        more=max(0, count - len(heads)),
        commands=commands_for(kind, queue or shown_by, origin.namespace, app=app, file=origin.file),
        news="" if news is None else news.digest(kind),
    )


def _item(head: NamedHead, *, texts: bool) -> Item:
    failure = head.failure
    error = f"{failure.type}: {failure.message}" if texts and failure.message else failure.type
    return Item(group=named(head.group), id=head.id, error=error_text(error), at=failure.at, commands=head.commands)
