"""Reads `[targets.NAME]` of the file of `run`: where notices go. What is wrong in it is one sentence.

A target is made and checked here, and not reached: nothing is sent before its first notice. No sentence holds a URL or
a secret. docs/alerts.md says what each key means.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ....errors import ConfigurationError, shown
from ....settings.option import declared, fields_of, option, read_table, seconds, text
from ....settings.tables import SECRET, value_of
from ....values.checks import check_name, nearest
from ..notice import Notice
from .by_apprise import ByApprise
from .command import Command, words_of
from .webhook import CODE, Robot, RobotKind, Webhook, split_url

MAX_TIMEOUT_S = 8.0
"""Of one try: two of them fit into the time that a sender has for a notice."""
ROBOTS: dict[str, RobotKind] = {kind: kind for kind in CODE}
TYPES = ("webhook", "command", *ROBOTS, "apprise")
TAKES = {"webhook": {"url"}, "command": {"exec"}, "feishu": {"url", "secret"}}
"""What a type takes beside `timeout`; the others take a URL."""
ROBOTS_OF_APPRISE = {"dingtalk": "dingtalk", "wecombot": "wecom"}
"""Schemes with which apprise would say success where there is none, and our types for them."""


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
        """How long one attempt may take."""

    def send(self, notice: Notice) -> None:
        """Returns once the receiver said that it has the notice. Raises DeliveryFailed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetTable:
    """`[targets.NAME]`."""

    type: str = option(text(), "", "webhook, command, feishu, dingtalk, wecom or apprise.", ("run",))
    url: str | None = option(
        text("text", is_secret=True), None, "Where messages are sent; env:NAME takes it from a variable.", ("run",)
    )
    secret: str | None = option(
        text("text", is_secret=True), None, "feishu: signs the messages, as env:NAME.", ("run",)
    )
    exec: str | None = option(text("a command"), None, "command: what is run for each message.", ("run",))
    timeout_s: float = option(seconds(0.1, MAX_TIMEOUT_S), 5.0, "How long one attempt may take.", ("run",))


def read_target(name: str, table: Any, *, directory: Path = Path(), hidden: Collection[str] = ()) -> Target:
    """The target that a table of the file describes. Raises ConfigurationError, in one sentence, without a secret.

    `directory`: of the file; a command runs there. `hidden`: variables that a command is not given: those that the file
    names (`variables_in` of `settings/tables.py`).
    """
    try:
        check_name("target", name)
        if not isinstance(table, dict):
            raise ConfigurationError('it must be a table with a type, as in type = "webhook"')
        given = fields_of(TargetTable, read_table(table, declared(TargetTable)))
        return _made(name, TargetTable(**given), directory, frozenset(hidden))
    except ConfigurationError as error:
        raise ConfigurationError(f"targets.{name}: {error}") from error


def _made(name: str, table: TargetTable, directory: Path, hidden: frozenset[str]) -> Target:
    kind = table.type
    if kind not in TYPES:
        given = f"there is no type {shown(kind)}" if kind else "it has no type"
        raise ConfigurationError(f"{given}; {nearest(kind, TYPES)}")
    for word in ("exec", "url", "secret"):
        if getattr(table, word) is not None and word not in TAKES.get(kind, {"url"}):
            raise ConfigurationError(f"{word} is nothing that type {kind!r} takes; leave it out")
    timeout_s = table.timeout_s
    if kind == "command":
        words = words_of(table.exec or "", directory)
        return Command(name=name, words=words, directory=directory, hidden=hidden, timeout_s=timeout_s)
    url = _url(table)
    if kind == "apprise":
        return _by_apprise(name, url, timeout_s)
    if kind == "webhook":
        return Webhook(name=name, url=split_url(url), timeout_s=timeout_s)
    secret = None if table.secret is None else _secret("secret", table.secret)
    return Robot(name=name, kind=ROBOTS[kind], url=split_url(url), secret=secret, timeout_s=timeout_s)


def _url(table: TargetTable) -> str:
    """The URL. It stands in the file only where nothing in it looks like a secret."""
    if table.url is None:
        raise ConfigurationError(f'it has no url; put that into a variable, and write url = "{SECRET}NAME"')
    if table.type == "webhook" and not table.url.startswith(SECRET):
        parts = split_url(table.url)
        if not (parts.username or parts.password or parts.query):
            return table.url
    return _secret("url", table.url)


def _secret(word: str, text: str) -> str:
    """The value of a variable; what stands in the file itself is not taken, and not shown."""
    if not text.startswith(SECRET):
        raise ConfigurationError(f'put {word} into a variable, and write {word} = "{SECRET}NAME"')
    value, variable = value_of(word, text), text.removeprefix(SECRET)
    if not value or value != value.strip():
        raise ConfigurationError(f"{word}: the variable {variable} is empty, or begins or ends with a space")
    return value


def _by_apprise(name: str, url: str, timeout_s: float) -> Target:
    if importlib.util.find_spec("apprise") is None:
        raise ConfigurationError("type 'apprise' is sent by apprise, which is not installed: pip install apprise")
    scheme, found, _ = url.partition("://")
    if not found:
        raise ConfigurationError("url must be one that apprise takes, beginning with its service's name and ://")
    if kind := ROBOTS_OF_APPRISE.get(scheme.lower()):
        raise ConfigurationError(f'apprise does not see whether this robot refuses; write type = "{kind}"')
    return ByApprise(name=name, url=url, timeout_s=timeout_s)
