"""One consuming process: does what the drain generator asks, and keeps leases alive beside a running handler.

Two threads. The caller's thread runs handlers and, between them, one round trip a batch. The keeper thread never
runs user code: while a handler runs it renews leases, sends acks that would wait for it, claims ahead of its end, and
gives back groups not begun. One lock guards the holdings and the main link, on which both send.
"""

from __future__ import annotations

import logging
import os
import random
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

from .backoff import RECONNECT
from .claimed import Claimed
from .connection import Endpoint
from .courier import Courier
from .drain import Ahead, Control, Exchange, Flush, Handler, Pause, Wait, drain
from .errors import SequencerError
from .holdings import Holdings
from .interruption import interrupt
from .keys import LaneKeys
from .link import Link
from .message import ConsumeSummary, Message
from .options import ConsumerOptions, QueueOptions
from .waiter import SLICE_S, Waiter

log = logging.getLogger("sequencer")

TICK_S = 0.0025
"""How often the keeper looks while a handler runs: with ACK_AFTER_S and thread switches, acks leave in 10 ms."""
LONG_TICK_S, LONG_S = 0.005, 0.05
"""How often once a handler has run for LONG_S: nothing of its batch can be waiting for it any more."""
WAIT_PART = 3
"""A wait with a claim behind it is over after this part of the lease, so that most of that is left."""
SILENT_S = 10.0
"""The main link is used at least so often while a consumer waits: else it is forgotten on its way, unnoticed."""
SWITCH_S = 0.0005
"""How long a handler that never waits may keep the keeper thread from running; Python's default is 5 ms."""


_forks = 0
"""How often this process is a copy of another."""


def _count_fork() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_count_fork)


def owner_name() -> str:
    """Who holds a lease, for people: host, process and a few random characters."""
    return f"{socket.gethostname()}:{os.getpid()}:{random.randrange(16**6):06x}"


class Consumer:
    """Runs `handler` for one message at a time until stopped, drained or recycled."""

    def __init__(
        self,
        endpoint: Endpoint,
        lanes: Sequence[LaneKeys],
        queue: QueueOptions,
        options: ConsumerOptions,
        handler: Handler,
        *,
        owner: str | None = None,
        on_connect: Callable[[Link], None] | None = None,
    ) -> None:
        self.owner = owner or owner_name()
        self._lanes, self._queue, self._options, self._handler = lanes, queue, options, handler
        self._main = Link(endpoint, on_connect)
        self._waiter = Waiter(endpoint, [keys.dispatch for keys in lanes], self._main)
        self._holdings = Holdings(lanes, options.lease_s, audits=options.audit, audit_length=options.audit_length)
        self._courier = Courier(self._main, self._holdings, lanes, queue, options, self.owner)
        self._lock = threading.Lock()
        self._control = Control()
        self._busy, self._ended = threading.Event(), threading.Event()
        self._is_handling = False
        self._exchanged_at = 0.0
        self.on_first: Callable[[], None] | None = None
        """Called once, before the first handler begins."""

    def stop(self) -> None:
        """Take nothing new; finish and acknowledge what runs. A note only: safe in a signal handler or any thread."""
        self._control.is_stopping = True

    def interrupt(self) -> None:
        """Stop now: from its thread's signal handler, raises StopConsuming into a running handler, where it may."""
        self._control.is_stopping = True
        if self._is_handling:
            interrupt()

    @property
    def counts(self) -> dict[str, int]:
        """What it has done since it began; any thread may look."""
        control = self._control
        return {"handled": control.handled, "failed": control.failed, "lost": self._holdings.lost}

    def run(self) -> ConsumeSummary:
        """Consume until the end. Raises ServerNotUsable or DataError when going on makes no sense."""
        effects = drain(
            self._holdings,
            self._queue,
            self._options,
            self._control,
            owner=self.owner,
            clock=time.monotonic,
            wall=time.time,
            random=random.random,
            lock=self._lock,
        )
        keeper = threading.Thread(target=self._keep, name="sequencer-keeper", daemon=True)
        switch_s = sys.getswitchinterval()
        sys.setswitchinterval(min(switch_s, SWITCH_S))
        keeper.start()
        try:
            return self._perform(effects)
        except BaseException:
            self._give_back()
            raise
        finally:
            sys.setswitchinterval(switch_s)
            self._ended.set()
            self._busy.set()
            keeper.join(timeout=1.0)
            for link in (self._main, self._waiter.link):
                link.close()

    def _perform(self, effects: Any) -> ConsumeSummary:
        send, handler, forks, first = effects.send, self._handler, _forks, self.on_first
        answer: Any = None
        while True:
            try:
                effect = send(answer)
            except StopIteration as end:
                summary: ConsumeSummary = end.value
                return summary
            answer = None
            if type(effect) is Message:
                if first:
                    first()
                    first = None
                try:
                    self._is_handling = True
                    handler(effect)
                    self._is_handling = False
                    if forks != _forks:
                        _leave_copy(None)
                except KeyboardInterrupt:
                    self._is_handling = False
                    raise
                except BaseException as error:
                    # Also SystemExit or a CancelledError: what ends a handler is a failure of its message.
                    self._is_handling = False
                    if forks != _forks:
                        _leave_copy(error)
                    answer = error
            else:
                try:
                    answer = self._do(effect)
                except SequencerError as error:
                    log.warning("consumer %s: %s", self.owner, error)
                    send, answer = _throw_once(effects, error), None

    def _do(self, effect: Any) -> Claimed | None:
        if isinstance(effect, Exchange):
            return self._exchange(effect)
        if isinstance(effect, Ahead):
            with self._lock:
                self._courier.ahead(effect)
        elif isinstance(effect, Flush):
            with self._lock:
                self._courier.flush(time.monotonic())
        elif isinstance(effect, Wait):
            return self._wait(effect)
        elif isinstance(effect, Pause):
            until = time.monotonic() + effect.seconds
            while (left := until - time.monotonic()) > 0 and not self._control.is_stopping:
                time.sleep(min(left, SLICE_S))
        return None

    def _exchange(self, effect: Exchange) -> Claimed | None:
        self._busy.clear()
        with self._lock:
            claimed = self._courier.exchange(effect)
        self._exchanged_at = time.monotonic()
        return None if claimed is None else self._took(claimed)

    def _wait(self, effect: Wait) -> Claimed | None:
        """Until a hint comes, and with what was claimed then. That lease is counted from before the wait."""
        lane, seconds, call = effect.lane, effect.seconds, None
        asked_at = time.monotonic()
        with self._lock:
            if self._courier.land():
                return None
            if lane is not None and asked_at - self._exchanged_at < SILENT_S:
                seconds = min(seconds, self._options.lease_s / WAIT_PART)
                call = self._courier.claim(lane, effect.limits, ahead=True)
            else:
                self._main.refresh()  # the claim that follows the wait goes over it
        claimed = self._waiter.wait(seconds, lambda: self._control.is_stopping, call)
        if claimed is None or lane is None:
            return None
        with self._lock:
            self._holdings.take(lane, claimed.groups, asked_at, time.monotonic())
        return self._took(claimed)

    def _took(self, claimed: Claimed) -> Claimed:
        for group in claimed.groups:
            if group.expired_owner:
                log.warning(
                    "lease expired: group=%s owner=%s attempt=%d",
                    group.key,
                    group.expired_owner,
                    group.messages[0].attempt,
                )
        if claimed.groups:
            self._busy.set()
        return claimed

    def _give_back(self) -> None:
        try:
            self._exchange(Exchange(None))
        except SequencerError as error:
            log.warning("consumer %s could not release its groups: %s", self.owner, error)

    def _keep_once(self, now: float) -> None:
        self._courier.look(now)
        self._courier.tick(now)

    def _keep(self) -> None:
        pause_s = min(RECONNECT.base_s, self._options.lease_s / 20)
        while self._busy.wait() and not self._ended.is_set():
            since = self._holdings.running_since
            is_long = since is not None and time.monotonic() - since > LONG_S
            time.sleep(LONG_TICK_S if is_long else TICK_S)  # an Event's wait costs five times as much
            if self._ended.is_set():
                return
            try:
                with self._lock:
                    self._keep_once(time.monotonic())
            except SequencerError as error:
                log.warning("consumer %s: keeping its leases failed, trying again: %s", self.owner, error)
                self._ended.wait(pause_s)
            except Exception:
                log.exception("consumer %s: keeping its leases failed, trying again", self.owner)
                self._ended.wait(pause_s)


def _leave_copy(error: BaseException | None) -> NoReturn:
    """A handler forked, and this is the child, which came back: it ends here and does not become a second consumer."""
    code: Any = 0
    if isinstance(error, SystemExit):
        code = error.code
    elif error is not None:
        sys.excepthook(type(error), error, error.__traceback__)
        code = 1
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(code or 0)


def _throw_once(effects: Any, error: SequencerError) -> Callable[[Any], Any]:
    """A `send` that throws into the generator once, then sends again."""
    is_thrown = False

    def send(answer: Any) -> Any:
        nonlocal is_thrown
        if is_thrown:
            return effects.send(answer)
        is_thrown = True
        return effects.throw(error)

    return send


@contextmanager
def stop_on_signals(consumer: Consumer, say: Callable[[str], None]) -> Iterator[None]:
    """First SIGINT or SIGTERM: `stop`; second: `interrupt`. In a thread other than the main one it does nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    count = 0

    def on_signal(_number: int, _frame: Any) -> None:
        nonlocal count
        count += 1
        if count == 1:
            consumer.stop()
            say("stopping: finishing the message in hand; again to release it and stop now")
        else:
            say("stopping now: releasing what is held")
            consumer.interrupt()

    old = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
