"""One alert message: a notice, as lines for a chat and as JSON for programs. Pure.

A notice has no bodies. Its texts hold no control characters, and what turns text about is spelled out.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

from ...calls.alerts import Grant
from ...errors import SequencerError
from ...queue.alerts.incidents import key_of
from ...queue.alerts.pending_news import NamedHead, News
from ...texts.alerts import CUT, UNITS, alert_text, commands_for
from ...texts.words import duration, error_text, named, plain

LINE_CHARACTERS = 500
"""Of one line of a chat message."""
TEXT_BYTES = 4000
"""Of a whole chat message in UTF-8, unless a target takes less."""

_CALL = re.compile(r"<(?=[!@#]|/?at\b)|@(?=(?:all|channel|everyone|here|所有人)\b)|(?<!\w)@(?=\w)", re.IGNORECASE)
"""By which a text calls people in one chat or another: it may come from a message's sender."""


class DeliveryFailed(SequencerError):
    """A target did not take a notice. No URL, token or secret is in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One parked head, or one dead letter."""

    group: str
    id: str
    error: str
    """`ValueError: text`, or only the type where texts are left out."""
    at: float
    commands: tuple[str, ...]
    """Commands that settle it; for an unresolved step, one for each answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One message about one incident, for one target."""

    incident: str
    """`namespace:queue:kind:opened_us`: the same for all messages of an incident, from any sender."""
    number: int
    """How many messages of this incident the target took before, or may have taken before it came back."""
    what: str
    """`open`, `news`, `again`, `resolved`, or `test`."""
    namespace: str
    queue: str
    """"" if it is about the server."""
    kind: str
    environment: str
    """`production`, or ""."""
    host: str
    opened_at: float
    at: float
    """When the incident opened, and now: seconds since 1970."""
    value: float | None
    limit: float | None
    unit: str
    """Of both: `s`, `share` (of 1), or "" for a count."""
    text: str
    """One sentence, without bodies: `3 groups parked`."""
    errors: Mapping[str, int] = field(default_factory=dict)
    items: tuple[Item, ...] = ()
    more: int = 0
    commands: tuple[str, ...] = ()
    news: str = ""
    """Identifies the heads or dead letters in this message: the same for the same ones, "" for none."""

    @property
    def key(self) -> str:
        """The same whenever this message is sent again, so that a receiver recognizes a repeat.

        A message that names more than an earlier, unanswered one has another key: it is not a repeat.
        """
        return ":".join([self.incident, str(self.number), self.what, *([self.news] if self.news else [])])

    @property
    def title(self) -> str:
        """One line: `sequencer production orders: parked, resolved`."""
        return _line("title", environment=self.environment, queue=self.queue, kind=self.kind, what=self.what)

    @property
    def lines(self) -> list[str]:
        """For a chat: title, text, errors, times, items with their commands, commands for all."""
        errors = [_line("errors", errors=self.errors)] if self.errors else []
        lines = [self.title, _line("text", text=self.text), *errors, self._times()]
        for item in self.items:
            lines.append(_line("item", group=item.group, id=item.id, at=item.at, error=item.error))
            lines += [f"    {one}" for one in item.commands if _is_fit(one)]
        more = [_line("more", more=self.more)] if self.more else []
        return [*lines, *more, *filter(_is_fit, self.commands)]

    def _times(self) -> str:
        about = {"namespace": self.namespace, "host": self.host, "opened_at": self.opened_at, "at": self.at}
        about |= {"is_over": self.what == "resolved", "lasted_s": self.at - self.opened_at}
        known = {"now": self.value, "limit": self.limit}
        amounts = {name: _amount(value, self.unit) for name, value in known.items() if value is not None}
        return _line("times", **about, **amounts)

    def chat_text(self, most_bytes: int = TEXT_BYTES) -> str:
        """All lines as one text of at most this many bytes in UTF-8. Where it is cut, it says so."""
        text = "\n".join(self.lines)
        if len(text.encode()) <= most_bytes:
            return text
        kept = text.encode()[: most_bytes - len(CUT.encode())].decode(errors="ignore")
        return kept[: kept.rfind("\n") + 1] + CUT

    def as_json(self) -> dict[str, Any]:
        """As a dict of plain values: times in seconds since 1970; `value` and `limit` are None where there is none."""
        said: dict[str, Any] = _as_json({"key": self.key, "title": self.title, **asdict(self)})
        del said["news"]
        return said

    def body(self) -> bytes:
        """`as_json` as one line of ASCII."""
        return json.dumps(self.as_json(), separators=(",", ":")).encode("ascii")


class Origin(NamedTuple):
    """Where a notice comes from."""

    namespace: str
    environment: str
    host: str
    file: str = ""
    apps: Mapping[str, str] = {}


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
    """Of an incident. `news`: the heads that it names, if any. `errors`: how many groups each type of error parked.
    `shown_by`: the queue by which to check a server that is away, where `queue` is "".
    """
    kind, _, host = grant.kind.partition("@")
    heads = news.heads[kind] if news else []
    count = news.counts[kind] if news else 0
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
        unit=UNITS.get(kind, ""),
        text=alert_text("late", text=grant.text) if grant.is_late else grant.text,
        errors=errors or {},
        items=tuple(_item(head, texts=texts) for head in heads),
        more=max(0, count - len(heads)),
        commands=commands_for(kind, queue or shown_by, origin.namespace, app=app, file=origin.file),
        news=news.digest(kind) if news else "",
    )


def _item(head: NamedHead, *, texts: bool) -> Item:
    failure = head.failure
    error = f"{failure.type}: {failure.message}" if texts and failure.message else failure.type
    return Item(group=named(head.group), id=head.id, error=error_text(error), at=failure.at, commands=head.commands)


def test_notice(origin: Origin, now: float) -> Notice:
    """What a target is sent to try it. `now`: seconds since 1970."""
    text, now_us = alert_text("test", host=origin.host), round(now * 1e6)
    grant = Grant("test", "open", "", now_us, 0, "", "", text, False, now_us)
    return replace(notice_of(origin, "test", grant), what="test", commands=())


def _line(wording: str, **fields: Any) -> str:
    text = _CALL.sub(r"\g<0> ", alert_text(wording, **fields)[: LINE_CHARACTERS + 1])
    return text if len(text) <= LINE_CHARACTERS else f"{text[:LINE_CHARACTERS]}..."


def _is_fit(command: str) -> bool:
    """A part of one may do something else: a chat does not show one that is too long, or that calls people."""
    return len(command) <= LINE_CHARACTERS and not _CALL.search(command)


def _as_json(value: Any) -> Any:
    """JSON knows no infinity, and no NaN."""
    match value:
        case str():
            return plain(value)
        case float():
            return value if math.isfinite(value) else None
        case dict():
            return {plain(name): _as_json(one) for name, one in value.items()}
        case tuple():
            return [_as_json(one) for one in value]
    return value


def _amount(value: float, unit: str) -> str:
    if not math.isfinite(value):
        return f"{value:g}"
    if unit == "s":
        return duration(value)
    return f"{100 * value:.0f} %" if unit == "share" else f"{value:,.0f}"
