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
"""So many times what the last look took passes before the next one."""
LEAST_ROWS, OTHER_ROWS = 5, 14
STATES: tuple[GroupState, ...] = ("parked", "leased", "due", "waiting", "paused")
assert {*STATES} == {*get_args(GroupState)}
ARROWS = dict(zip("ABCD", ("up", "down", "right", "left"), strict=True))
KEYS = {f"\x1b{kind}{letter}": name for kind in "[O" for letter, name in ARROWS.items()}
KEYS |= {"\r": "enter", "\n": "enter", "\x7f": "back", "\x1b": "back"}


class Top:
    """What is shown, and what each key does. A change names the message that was shown at the head."""

    def __init__(self, clients: list[Sequencer], rows: int = 20, *, is_one: bool = False) -> None:
        self.clients, self.rows = clients, rows
        self.client = clients[0] if is_one else None
        """The queue whose groups are shown; None: all queues."""
        self.state, self.after = STATES[0], ""
        self.infos, self.page = list[QueueInfo](), Page[GroupInfo]([], None)
        self.at, self.note, self.explained = 0, "", False
        self._asked: Callable[[], str] | None = None
        """What is done if the answer is y."""

    @property
    def group(self) -> GroupInfo | None:
        return self.page.items[self.at] if self.client and self.at < len(self.page.items) else None

    @property
    def _at_queue(self) -> Sequencer | None:
        """The queue whose line is chosen."""
        names = {one.queue: one for one in self.clients}
        return names[self.infos[self.at].queue] if not self.client and self.at < len(self.infos) else None

    def look(self) -> None:
        """Read again; where that fails, what was read stays."""
        before = self.group.group if self.group else None
        try:
            if self.client is None:
                self.infos = sorted((one.info(sample=SAMPLE) for one in self.clients), key=_worst_first)
                self.at = max(0, min(self.at, len(self.infos) - 1))
                return
            self.infos = [self.client.info(sample=SAMPLE)]
            self.page = self.client.group_page(self.state, limit=self.rows, after=self.after or None)
        except SequencerError as error:
            self.note = str(error)
            return
        names = [one.group for one in self.page.items]
        self.at = names.index(before) if before in names else max(0, min(self.at, len(names) - 1))

    def press(self, key: str) -> bool:
        """Do what a key is for; False where it ends the program."""
        self.note = ""
        if asked := self._asked:
            self._asked = None
            if key == "y":
                self._do(asked)
            return True
        if key in ("q", "back"):
            if key == "q" or self.client is None or (len(self.clients) == 1 and not self.explained):
                return False
            self.explained = self._left()
        elif key in ("up", "down"):
            last = len(self.page.items if self.client else self.infos) - 1
            self.at = max(0, min(last, self.at + (1 if key == "down" else -1)))
        elif client := self._at_queue:
            self._of_queue(key, client)
        elif self.client:
            self._of_groups(key, self.client)
        return True

    def _left(self) -> bool:
        """From an explanation to the groups, from those to the queues."""
        if not self.explained:
            self.client, self.at, self.page = None, 0, Page([], None)
            self.look()
        return False

    def _of_queue(self, key: str, client: Sequencer) -> None:
        if key in ("enter", "right"):
            self.client, self.at, self.after = client, 0, ""
            self.look()
        elif key == "p":
            self._ask("pause_question", client, lambda: self._paused(client, "paused"))
        elif key == "u":
            self._do(lambda: self._paused(client, "unpaused"))

    def _of_groups(self, key: str, client: Sequencer) -> None:
        one = self.group
        if key in ("left", "right"):
            step = 1 if key == "right" else -1
            self.state, self.after = STATES[(STATES.index(self.state) + step) % len(STATES)], ""
            self.look()
        elif key == "n":
            self.after = self.page.after or ""
            self.look()
        elif one is None:
            return
        elif key == "enter":
            self.explained = not self.explained
        elif key == "r":
            self._do(lambda: _resumed(client, one))
        elif key == "s":
            self._ask("skip_question", client, lambda: _skipped(client, one), group=one.group, id=_seen(one))
        elif key in ("p", "u"):
            self._do(lambda: self._paused(client, "paused" if key == "p" else "unpaused", one))

    def _ask(self, code: str, client: Sequencer, do: Callable[[], str], **fields: object) -> None:
        self._asked, self.note = do, text_of(client, code, **fields)

    def _do(self, do: Callable[[], str]) -> None:
        try:
            self.note = do()
        except SequencerError as error:
            self.note = str(error)
        self.look()

    @staticmethod
    def _paused(client: Sequencer, code: str, one: GroupInfo | None = None) -> str:
        change = client.pause if code == "paused" else client.unpause
        group = one.group if one else None
        return text_of(client, code, group=group, changed=change(group))

    def text(self) -> str:
        if self.client is None:
            return "\n".join([queues_text(self.infos, self.at) or "no queues", *self._notes()])
        counts = {state: getattr(info, state) for info in self.infos for state in STATES}
        shown = "  ".join(f"[{state} {count:,}]" if state == self.state else f"{state} {count:,}"
                          for state, count in counts.items())  # fmt: skip
        lines = [queues_text(self.infos), "", shown, group_table(self.page.items, self.at), *self._notes()]
        return "\n".join(lines)

    def _notes(self) -> list[str]:
        notes = [self.note]
        if self.explained and self.client and (one := self.group):
            try:
                notes.append(self.client.explain(one.group).text)
            except SequencerError as error:
                notes.append(str(error))
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
    shows the next page. r resumes a group; s makes its failed head a dead letter, and asks first; p pauses a group, or
    a queue, u lets it go on; q ends. A key acts only on the message that is shown.
    """
    period_s = seconds_of("interval", interval, 0.1, 86_400)
    shown = Top(clients_of(queue, redis, namespace), is_one=queue is not None)
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
    """Waits for so many seconds for a key, which comes without a newline and is not shown; "" for none."""
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
