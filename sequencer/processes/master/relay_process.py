"""The relay of a queue's outbox in a process of its own, so that a database that hangs can't halt the master.

`python -m sequencer.processes.master.relay_process`: standard input is one JSON line, and its end stops the relay; what
waits in the outbox goes to the descriptor that the line names, a JSON line each.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from ...client import Sequencer
from ...errors import SequencerError
from ...outbox import Relay
from ...outbox.drivers import connector
from ...outbox.operate import Operated
from ...outbox.relay import run_until_signal
from ...settings.options import OutboxOptions
from ...texts.events import event, log_event
from ...values.pools import OutboxBacklog
from .. import logs
from ..consumer_process import close_stdin
from ..worker.run import report_line
from .application import start_beside, taken
from .plan import PoolPlan

MODULE = "sequencer.processes.master.relay_process"
AGAIN_S = 10.0
"""Between two starts."""
END_S = 5.0
"""How long a relay may take to end: a database may hang. One that is killed loses nothing."""
REPORT_S = 5.0


class RelayProcess:
    """Relays the outbox of a pool, if it has one."""

    def __init__(self, plan: PoolPlan, report_fd: int) -> None:
        self._plan, self._report_fd = plan, report_fd
        self._process: subprocess.Popen[bytes] | None = None
        self._starts_at, self._stopped_at = 0.0, 0.0
        self._backlog: OutboxBacklog | None = None
        self._reported_at = 0.0

    @property
    def backlog(self) -> OutboxBacklog | None:
        """As it said last; None where that is too long ago: its database is away."""
        return self._backlog if time.monotonic() - self._reported_at < 3 * REPORT_S else None

    @property
    def is_done(self) -> bool:
        return self._process is None

    def tick(self, now: float, emit: Callable[..., None], *, may_start: bool) -> None:
        process = self._process
        if process is None:
            if may_start and self._plan.outbox and now >= self._starts_at:
                self._starts_at = now + AGAIN_S
                with suppress(OSError):
                    self._process = start_beside(MODULE, self._plan, self._report_fd, asdict(self._plan.outbox))
        elif (status := process.poll()) is not None:
            self.close()
            if status and not self._stopped_at:
                emit("relay failed", error=SequencerError("relay_ended", status=status))
            self._stopped_at = 0.0
        elif self._stopped_at and now - self._stopped_at >= END_S:
            process.kill()

    def stop(self) -> None:
        if self._process is not None and not self._stopped_at:
            self._stopped_at = time.monotonic()
            close_stdin(self._process)

    def replace(self, plan: PoolPlan) -> None:
        """Its successor leads as soon as it has ended."""
        self._plan, self._starts_at = plan, 0.0
        self.stop()

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            close_stdin(self._process)
            self._process = self._backlog = None

    def take_report(self, report: dict[str, Any]) -> bool:
        if self._process is None or report["pid"] != self._process.pid:
            return False
        self._backlog, self._reported_at = OutboxBacklog(*report["backlog"]), time.monotonic()
        return True


# -- in that process ------------------------------------------------------------------------------------------------


def main() -> int:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a reload is the master's
    config, report_fd, (outbox,) = taken()
    options = OutboxOptions(**outbox)
    logs.configure(config.log_level, config.log_format)
    with Sequencer(config.queue, config.url, namespace=config.namespace, **config.settings) as client:
        connect, prefix = connector(options.db), options.prefix
        relays = [Relay(connect, client, part=part, prefix=prefix, keep=options.keep) for part in range(options.parts)]
        operated = Operated(connect, config.queue, parts=options.parts, prefix=prefix)
        for work in (_stop_at_the_end, lambda: _report(operated, report_fd)):
            threading.Thread(target=work, daemon=True).start()
        run_until_signal(relays)
    errors = [one.error for one in relays if one.error]
    for error in errors:
        log_event(event("relay failed", config.queue, error=error))
    return len(errors)


def _stop_at_the_end() -> None:
    """Of standard input: the master wants it, or is gone."""
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGTERM)


def _report(operated: Operated, report_fd: int) -> None:
    while True:
        with suppress(SequencerError, OSError):
            os.write(report_fd, report_line({"event": "outbox", "backlog": [*operated.backlog()]}))
        time.sleep(REPORT_S)


if __name__ == "__main__":
    sys.exit(main())
