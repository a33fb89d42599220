"""`sequencer top`: queues and their groups on the whole terminal, with keys that explain a group and let it go on."""

from __future__ import annotations

import os
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Annotated, get_args

import typer
from rich.console import Console
from rich.text import Text
from typer import Option

from ..client import Sequencer
from ..errors import SequencerError
from ..texts.answers import answer_text
from ..texts.words import plain
from ..values.checks import seconds_of
from ..values.views import GroupInfo, GroupState, Page, QueueInfo
from .app import DURATION, NamespaceOption, OptionalQueueArgument, RedisOption, app, text_of
from .queues import clients_of
from .show import group_table, queues_text

SAMPLE = 1000
"""Groups from which backlog and lag are estimated, where a shard has more: a look costs about 10 ms."""
SHARE = 20
"""The next snapshot waits this many times as long as the last one took."""
LEAST_ROWS, OTHER_ROWS = 5, 14
STATES: tuple[GroupState, ...] = ("parked", "leased", "due", "waiting", "paused")
assert {*STATES} == {*get_args(GroupState)}
ARROWS = dict(zip("ABCD", ("up", "down", "right", "left"), strict=True))
KEYS = {f"\x1b{kind}{letter}": name for kind in "[O" for letter, name in ARROWS.items()}
KEYS |= {"\r": "enter", "\n": "enter", "\x7f": "back", "\x1b": "back"}


class Top:
    """What is shown, and what each key does. A change names the message that was shown."""

    def __init__(self, clients: list[Sequencer], client: Sequencer | None = None) -> None:
        self.clients, self.client = clients, client
        """All queues; the one whose groups are shown, if any."""
        self.rows, self.at, self.note, self.explained = 20, 0, "", False
        self.state, self.after = STATES[0], ""
        self.infos, self.page = list[QueueInfo](), Page[GroupInfo]([], None)
        self._asked: Callable[[], str] | None = None
        """What is done if the answer is y."""

    @property
    def group(self) -> GroupInfo | None:
        return self.page.items[self.at] if self.client and self.at < len(self.page.items) else None

    def look(self) -> None:
        """Read again; where that fails, what was read stays. The choice follows its group."""
        before = self.group.group if self.group else None
        try:
            shown = [self.client] if self.client else self.clients
            self.infos = sorted((one.info(sample=SAMPLE) for one in shown), key=_worst_first)
            if self.client:
                self.page = self.client.group_page(self.state, limit=self.rows, after=self.after or None)
        except SequencerError as error:
            self.note = str(error)
        names = [one.group for one in self.page.items]
        self._choose(names.index(before) if before in names else self.at)

    def _choose(self, at: int) -> None:
        self.at = max(0, min(at, len(self.page.items if self.client else self.infos) - 1))

    def press(self, key: str) -> bool:
        """Do what a key is for; False where it ends the program."""
        asked, self._asked, self.note = self._asked, None, ""
        if asked:
            if key == "y":
                self._do(asked)
        elif key == "q" or (key == "back" and not self.client):
            return False
        elif key in ("up", "down"):
            self._choose(self.at + (1 if key == "down" else -1))
        elif key in ("enter", "back") and (self.explained or (key == "enter" and self.group)):
            self.explained = not self.explained
        elif key in ("enter", "back"):
            names = {one.queue: one for one in self.clients}
            self._open(None if self.client or not self.infos else names[self.infos[self.at].queue])
        elif self.client:
            self._of_groups(key, self.client)
        return True

    def _open(self, client: Sequencer | None) -> None:
        self.client, self.at, self.after, self.page = client, 0, "", Page([], None)
        self.look()

    def _of_groups(self, key: str, client: Sequencer) -> None:
        one = self.group
        if key in ("left", "right", "n"):
            if key != "n":
                self.state = STATES[(STATES.index(self.state) + (1 if key == "right" else -1)) % len(STATES)]
            self.after = (self.page.after or "") if key == "n" else ""
            self.look()
        elif one and key == "s":
            self._asked = partial(_skipped, client, one)
            self.note = text_of(client, "skip_question", group=one.group, id=_seen(one))
        elif one and key in CHANGES:
            self._do(partial(CHANGES[key], client, one))

    def _do(self, change: Callable[[], str]) -> None:
        try:
            self.note = change()
        except SequencerError as error:
            self.note = str(error)
        self.look()

    def text(self) -> str:
        notes = [self.note]
        if self.client is None:
            return "\n".join([queues_text(self.infos, self.at) or "no queues", *_plain(notes)])
        counts = {state: f"{state} {getattr(info, state):,}" for info in self.infos for state in STATES}
        states = "  ".join(f"[{text}]" if state == self.state else text for state, text in counts.items())
        if self.explained and self.group:
            try:
                notes.append(self.client.explain(self.group.group).text)
            except SequencerError as error:
                notes.append(str(error))
        return "\n".join([queues_text(self.infos), "", states, group_table(self.page.items, self.at), *_plain(notes)])


def _plain(notes: list[str]) -> list[str]:
    return [line for note in notes if note for line in ("", plain(note))]


def _worst_first(info: QueueInfo) -> tuple[float, ...]:
    held = bool(info.outage) + bool(info.no_consumers)
    return -held, -float(info.parked > 0), -info.lag_s, -info.backlog


def _seen(one: GroupInfo) -> str | None:
    """The id of the message that failed, else of the head; None of a group that is parked behind a missing number."""
    return one.failure.id if one.failure else None if one.state == "parked" else one.head_id


def _resumed(client: Sequencer, one: GroupInfo) -> str:
    is_resumed = client.resume(one.group, id=one.failure.id if one.failure else None)
    return text_of(client, "resumed" if is_resumed else "already_due", group=one.group)


def _skipped(client: Sequencer, one: GroupInfo) -> str:
    """As a dead letter: nothing is lost by a key."""
    client.skip(one.group, id=_seen(one), dead_letter=True)
    return text_of(client, "resumed", group=one.group)


def _changed(code: str, client: Sequencer, one: GroupInfo) -> str:
    change = client.pause if code == "paused" else client.unpause
    return text_of(client, code, group=one.group, changed=change(one.group))


CHANGES: dict[str, Callable[[Sequencer, GroupInfo], str]] = {
    "r": _resumed,
    "p": partial(_changed, "paused"),
    "u": partial(_changed, "unpaused"),
}


@app.command()
def top(
    queue: OptionalQueueArgument = None,
    once: Annotated[bool, Option("--once", help="Print it once, as where there is no terminal.")] = False,
    interval: Annotated[float, Option(help="Time between refreshes, at least.", **DURATION)] = 2.0,
    redis: RedisOption = None,
    namespace: NamespaceOption = "sequencer",
) -> None:
    """Queues and their groups on the whole terminal, refreshed, with keys.

    Up and down choose; enter opens a queue, or explains a group; left and right change the state that is listed, n
    shows the next page. r resumes a group; s makes its failed head a dead letter, and asks first; p pauses it, u lets
    it go on; q ends. A key acts only on the message that is shown.
    """
    period_s = seconds_of("interval", interval, 0.1, 86_400)
    clients = clients_of(queue, redis, namespace)
    shown = Top(clients, clients[0] if queue else None)
    if once or not (sys.stdin.isatty() and sys.stdout.isatty()):
        shown.look()
        typer.echo(shown.text())
        return
    console, next_at = Console(), 0.0
    with _keys() as pressed, console.screen(hide_cursor=True) as screen:
        while True:
            shown.rows = max(LEAST_ROWS, console.height - OTHER_ROWS)
            if (began := time.monotonic()) >= next_at:
                shown.look()
                next_at = time.monotonic() + max(period_s, SHARE * (time.monotonic() - began))
            screen.update(Text(f"{answer_text('keys')}\n\n{shown.text()}"))
            key = pressed(max(0.0, next_at - time.monotonic()))
            if key and not shown.press(key):
                return


@contextmanager
def _keys() -> Iterator[Callable[[float], str]]:
    """Waits up to `seconds` for a key, which comes without a newline and is not shown; "" for none."""
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    tty.setcbreak(fd)
    try:
        yield partial(_key, fd)
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)


def _key(fd: int, seconds: float) -> str:
    if not select.select([fd], [], [], seconds)[0]:
        return ""
    text = os.read(fd, 32).decode("utf-8", "ignore") or "q"
    return next((name for code, name in KEYS.items() if text.startswith(code)), text[0])
