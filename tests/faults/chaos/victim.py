"""What the consumers of a chaos run do with a message, and how they fail: the app of `sequencer.processes.worker.run`.

A handler fails by the seed, the message and the token, so that another attempt goes another way. A mutant: with
"no renewal" leases are not kept beside a long handler.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from sequencer import calls
from sequencer.client import Sequencer
from sequencer.drain import held, slots
from sequencer.errors import Park, Retry, SetAside
from sequencer.store.keys import ShardKeys
from sequencer.values.message import Message

from ...support.judge.history import Recorder
from .setting import Setting

setting = Setting.from_environment()

LONG = 1.4
"""How long a long handler runs, in leases."""


@cache
def recorder() -> Recorder:
    """Opened with the first event: importing this file writes nothing."""
    return setting.recorder("consumer")


def misbehave(message: Message, announce: Callable[[float], None] = lambda seconds: None) -> None:
    """Take a while, and perhaps fail; `announce` hears beforehand of a run that takes longer than a lease."""
    chance = random.Random(f"{setting.seed}:{message.id}:{message.token}").random()
    if str(message.body) != message.id.partition("-")[2]:
        recorder().note("seen", kind=f"broken: {message.id} came with the body {message.body!r}")
    if setting.is_healed:
        return
    if chance < 0.05 and is_first_long() if setting.mutant == "no renewal" else chance < 0.004:
        announce(setting.lease_s * LONG)
        time.sleep(setting.lease_s * LONG)
    elif chance < 0.06:
        time.sleep(0.02)
    elif chance < 0.07:
        raise Retry(after=0.05)
    elif chance < 0.09:
        raise ValueError("so it was drawn")
    elif chance < 0.094:
        raise SetAside("so it was drawn")
    elif chance < 0.096:
        raise Park("so it was drawn")


def is_first_long() -> bool:
    """Whether nobody has run a long handler in this run: others are free to take its lease over."""
    try:
        (Path(setting.home) / "long").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


class LogEvents(logging.Handler):
    """Records that the consumer lost a lease, which it tells its log."""

    def emit(self, record: logging.LogRecord) -> None:
        if getattr(record, "event", "") == "lease lost":
            recorder().note("seen", kind="lease lost")


def no_renewal(
    keys: ShardKeys, leases: Sequence[tuple[str, str]], lease_s: float, *, alone: bool = False
) -> calls.Call[Any]:
    """The mutant whose renewals last a millisecond, while it believes in a whole lease."""
    return calls.renew(keys, leases, 0.001, alone=alone)


def make_app() -> Sequencer:
    """The queue with its handler, as this run wants it."""
    app = setting.sequencer()

    def handle(message: Message) -> Any:
        return recorder().run(misbehave)(message)

    async def handle_on_loop(message: Message) -> Any:
        await asyncio.sleep(0)
        handle(message)  # what takes a while here blocks the loop

    app.handler(handle_on_loop if setting.has_loop else handle)
    if setting.mutant == "no renewal":
        vars(held)["renew"] = vars(slots)["renew"] = no_renewal
    logging.getLogger("sequencer").addHandler(LogEvents())
    return app


seq = make_app()
