"""`sequencer top`: queues and their groups on the whole terminal, with keys that explain a group and let it go on."""

from __future__ import annotations

import sys
import textwrap
import time
from contextlib import suppress
from typing import Annotated, Any

import typer
from typer import Option

from ..client import Sequencer
from ..errors import SequencerError
from ..texts.answers import answer_text
from ..texts.words import plain
from ..values.checks import seconds_of
from ..values.views import GroupInfo, GroupState, QueueInfo
from .app import DURATION, NamespaceOption, OptionalQueueArgument, RedisOption, app, text_of
from .queues import clients_of
from .show import group_table, queues_text

SAMPLE = 1000
"""Groups from which backlog and lag are estimated, where a shard has more: a look costs about 10 ms."""
SHARE = 20
"""The next snapshot waits this many times as long as the last one took."""
LEAST_ROWS, OTHER_ROWS = 5, 14
STATES: tuple[GroupState, ...] = ("parked", "leased", "due", "waiting", "paused")
BACK = ("KEY_BACKSPACE", "\x7f", "\x1b")


class Top:
    """What is shown, and what each key does. A change names the message that was shown."""

    def __init__(self, clients: list[Sequencer], client: Sequencer | None = None) -> None:
        self.clients, self.client = clients, client
        """All queues; the one whose groups are shown, if any."""
        self.rows, self.at, self.note, self.state = 20, 0, "", STATES[0]
        self.infos, self.groups = list[QueueInfo](), list[GroupInfo]()

    @property
    def group(self) -> GroupInfo | None:
        return self.groups[self.at] if self.at < len(self.groups) else None

    def look(self) -> None:
        """Read again; where that fails, what was read stays. The choice follows its group."""
        before = self.group.group if self.group else None
        try:
            shown = [self.client] if self.client else self.clients
            self.infos = sorted((one.info(sample=SAMPLE) for one in shown), key=_worst_first)
            self.groups = self.client.group_page(self.state, limit=self.rows).items if self.client else []
        except SequencerError as error:
            self.note = str(error)
        names = [one.group for one in self.groups]
        self._choose(names.index(before) if before in names else self.at)

    def _choose(self, at: int) -> None:
        self.at = max(0, min(at, len(self.groups if self.client else self.infos) - 1))

    def press(self, key: str) -> bool:
        """Do what a key, by its name in curses, is for; False where it ends the program."""
        one, client, self.note = self.group, self.client, ""
        if key in ("KEY_UP", "KEY_DOWN"):
            self._choose(self.at + (1 if key == "KEY_DOWN" else -1))
        elif key in ("KEY_LEFT", "KEY_RIGHT"):
            self.state = STATES[(STATES.index(self.state) + (1 if key == "KEY_RIGHT" else -1)) % len(STATES)]
            self.look()
        elif key == "\n" and not client and self.infos:
            self._open(next(one for one in self.clients if one.queue == self.infos[self.at].queue))
        elif key in BACK and client:
            self._open(None)
        elif key in ("\n", "r") and client and one:
            try:
                self.note = client.explain(one.group).text if key == "\n" else _resume(client, one)
            except SequencerError as error:
                self.note = str(error)
            self.look()
        else:
            return key != "q" and key not in BACK
        return True

    def _open(self, client: Sequencer | None) -> None:
        self.client, self.at = client, 0
        self.look()

    def text(self) -> str:
        if self.client is None:
            return "\n".join([queues_text(self.infos, self.at) or "no queues", "", plain(self.note)])
        counts = {state: f"{state} {getattr(info, state):,}" for info in self.infos for state in STATES}
        states = "  ".join(f"[{text}]" if state == self.state else text for state, text in counts.items())
        return "\n".join([queues_text(self.infos), "", states, group_table(self.groups, self.at), "", plain(self.note)])


def _worst_first(info: QueueInfo) -> tuple[float, ...]:
    held = bool(info.outage) + bool(info.no_consumers)
    return -held, -float(info.parked > 0), -info.lag_s, -info.backlog


def _resume(client: Sequencer, one: GroupInfo) -> str:
    is_resumed = client.resume(one.group, id=one.failure.id if one.failure else None)
    return text_of(client, "resumed" if is_resumed else "already_due", group=one.group)


@app.command()
def top(
    queue: OptionalQueueArgument = None,
    interval: Annotated[float, Option(help="Time between refreshes, at least.", **DURATION)] = 2.0,
    redis: RedisOption = None,
    namespace: NamespaceOption = "sequencer",
) -> None:
    """Queues and their groups on the whole terminal, refreshed, with keys; printed once where there is no terminal.

    Up and down choose; enter opens a queue, or explains a group; left and right change the state that is listed. r
    resumes a group, only as it is shown; q ends.
    """
    period_s = seconds_of("interval", interval, 0.1, 86_400)
    clients = clients_of(queue, redis, namespace)
    shown = Top(clients, clients[0] if queue else None)
    if sys.stdin.isatty() and sys.stdout.isatty():
        import curses  # here alone: a Python may be built without it

        curses.wrapper(_run, curses, shown, period_s)
    else:
        shown.look()
        typer.echo(shown.text())


def _run(screen: Any, curses: Any, shown: Top, period_s: float) -> None:
    curses.set_escdelay(25)
    with suppress(curses.error):  # of a terminal that can't
        curses.curs_set(0)
    next_at, is_shown = 0.0, True
    while is_shown:
        rows, columns = screen.getmaxyx()
        shown.rows = max(LEAST_ROWS, rows - OTHER_ROWS)
        if (began := time.monotonic()) >= next_at:
            shown.look()
            next_at = time.monotonic() + max(period_s, SHARE * (time.monotonic() - began))
        text = f"{answer_text('keys')}\n\n{shown.text()}"
        lines = [part for line in text.splitlines() for part in textwrap.wrap(line, columns - 1) or [""]]
        screen.erase()
        for at, line in enumerate(lines[:rows]):
            with suppress(curses.error):  # wide characters may need more room
                screen.addnstr(at, 0, line, columns - 1)
        screen.timeout(max(0, round(1000 * (next_at - time.monotonic()))))
        try:
            key = screen.getkey()
        except curses.error:  # none was pressed
            continue
        is_shown = shown.press(key)
