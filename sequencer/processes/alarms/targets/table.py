"""Reads `[targets.NAME]` of the file of `run`: where notices go. What is wrong in it is one sentence.

A target is made and checked here, and not reached: nothing is sent before its first notice. No sentence holds a URL or
a secret. What each word means is in README.md of `alarms`.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Collection
from pathlib import Path
from typing import Any, Protocol, get_args

import msgspec

from ....errors import ConfigurationError, shown
from ....settings.tables import SECRET, converted, value_of
from ....values.checks import check_name, nearest, seconds_of
from ..notice import Notice
from .by_apprise import SCHEMES, ByApprise
from .chat import TAKES_SECRET, Chat, ChatKind
from .command import Command, words_of
from .pagers import URLS, Pager, PagerKind
from .webhook import HookUrl, Webhook

MAX_TIMEOUT_S = 8.0
"""Of one try: two of them fit into the time that a sender has for a notice."""
CHATS: dict[str, ChatKind] = {kind: kind for kind in get_args(ChatKind)}
PAGERS: dict[str, PagerKind] = {kind: kind for kind in get_args(PagerKind)}
OURS = {"feishu": "feishu", "lark": "lark", "dingtalk": "dingtalk", "wecombot": "wecom", **PAGERS}
"""Schemes of apprise for what we send ourselves: it would say success where there is none."""
TYPES = ("webhook", "command", *CHATS, *PAGERS, *SCHEMES)
INSTALL = "pip install apprise"


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


class TargetTable(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, frozen=True):
    """`[targets.NAME]`."""

    type: str = ""
    url: str | None = None
    secret: str | None = None
    exec: str | None = None
    timeout: float | str = "5s"


def read_target(name: str, table: Any, *, directory: Path = Path(), hidden: Collection[str] = ()) -> Target:
    """The target that a table of the file describes. Raises ConfigurationError, in one sentence, without a secret.

    `directory`: of the file; a command runs there. `hidden`: variables that a command is not given: those that the file
    names (`variables_in` of `settings/tables.py`).
    """
    try:
        check_name("target", name)
        if not isinstance(table, dict):
            raise ConfigurationError('it must be a table with a type, as in type = "feishu"')
        return _made(name, converted(table, TargetTable, secret=("url", "secret")), directory, frozenset(hidden))
    except ConfigurationError as error:
        raise ConfigurationError(f"targets.{name}: {error}") from error


def _made(name: str, table: TargetTable, directory: Path, hidden: frozenset[str]) -> Target:
    kind = table.type
    if kind not in TYPES:
        given = f"there is no type {shown(kind)}" if kind else "it has no type"
        raise ConfigurationError(f"{given}; {nearest(kind, TYPES)}")
    timeout_s = seconds_of("timeout", table.timeout, 0.1, MAX_TIMEOUT_S)
    for word, value, takes in (
        ("exec", table.exec, kind == "command"),
        ("url", table.url, kind != "command"),
        ("secret", table.secret, kind == "webhook" or kind in (*TAKES_SECRET, *PAGERS)),
    ):
        if value is not None and not takes:
            raise ConfigurationError(f"{word} is nothing that type {kind!r} takes; leave it out")
    if kind == "command":
        words = words_of(table.exec or "", directory)
        return Command(name=name, words=words, directory=directory, hidden=hidden, timeout_s=timeout_s)
    url = _url(table)
    if kind in SCHEMES:
        return _by_apprise(name, kind, url, timeout_s)
    hook, secret = HookUrl(url), None if table.secret is None else _secret("secret", table.secret)
    if kind in PAGERS:
        if secret is None:
            raise ConfigurationError(f'it has no key; put that into a variable, and write secret = "{SECRET}NAME"')
        return Pager(name=name, kind=PAGERS[kind], url=hook, secret=secret, timeout_s=timeout_s)
    if kind in CHATS:
        return Chat(name=name, kind=CHATS[kind], url=hook, secret=secret, timeout_s=timeout_s)
    return Webhook(name=name, url=hook, secret=secret, timeout_s=timeout_s)


def _url(table: TargetTable) -> str:
    """The URL. It stands in the file only where the type has its secret elsewhere, and nothing in it looks like one."""
    if table.url is None and table.type in PAGERS:
        return URLS[PAGERS[table.type]]
    if table.url is None:
        raise ConfigurationError(f'it has no url; put that into a variable, and write url = "{SECRET}NAME"')
    if table.type in ("webhook", *PAGERS) and not table.url.startswith(SECRET) and HookUrl(table.url).is_plain:
        return table.url
    return _secret("url", table.url)


def _secret(word: str, text: str) -> str:
    """The value of a variable; what stands in the file itself is not taken, and not shown."""
    if not text.startswith(SECRET):
        raise ConfigurationError(f'put {word} into a variable, and write {word} = "{SECRET}NAME"')
    value, variable = value_of(word, text), text.removeprefix(SECRET)
    if not value:
        raise ConfigurationError(f"{word}: the variable {variable} is empty")
    if value != value.strip():
        raise ConfigurationError(f"{word}: the variable {variable} begins or ends with a space or an end of line")
    return value


def _by_apprise(name: str, kind: str, url: str, timeout_s: float) -> Target:
    if importlib.util.find_spec("apprise") is None:
        raise ConfigurationError(f"type {kind!r} is sent by apprise, which is not installed: {INSTALL}")
    schemes, scheme = SCHEMES[kind], url.partition("://")[0].lower()
    if scheme in OURS:
        raise ConfigurationError(f'url is of what we send ourselves; write type = "{OURS[scheme]}", with its own words')
    if "://" not in url or (schemes and scheme not in schemes):
        wanted = " or ".join(f"{one}://" for one in schemes) or "its service's name and ://"
        raise ConfigurationError(f"url must be one that apprise takes for this type, beginning with {wanted}")
    return ByApprise(name=name, kind=kind, url=url, timeout_s=timeout_s)
