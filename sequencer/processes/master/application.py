"""A process of its own for code of an application that no consumer runs, so that it can't halt or end the master: it
checks whether a queue's app can be loaded, or calls the queue's own check, with the queue's variables and directory.

`python -m sequencer.processes.master.application`: standard input is one JSON line, and its end ends the process; what
is found goes to the descriptor that the line names, a JSON line each.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ...client import Sequencer, find_server
from ...consume.forks import not_in_a_copy
from ...doctor.rights import Role, missing_rights
from ...drain.steps.declared import Steps
from ...drain.steps.functions import InlineHandler
from ...errors import ConfigurationError, HandlerNotFound, SequencerError
from ...net.blocking import BlockingNet, finish
from ...server import start_embedded
from ...settings.tables import located
from ...store.keys import shard_keys
from ...texts.refusals import refusal_text
from ...texts.words import error_text, type_name
from ..consumer_process import close_stdin, start_python, tell
from ..handlers.apps import load_app, value_of
from ..handlers.exec import REDIS_VARIABLE, check_command
from ..worker.config import WorkerConfig, prepare
from ..worker.run import report_line
from .plan import PoolPlan, RunPlan

MODULE = "sequencer.processes.master.application"
AGAIN_S = 60.0
"""Between two lines of a check, and between two starts."""


def start_beside(module: str, plan: PoolPlan, report_fd: int, *given: Any) -> subprocess.Popen[bytes]:
    """A process for what a pool has beside its consumers; `taken` in it returns what is given. Raises OSError."""
    # Its standard output is our error: what it prints is not what `--json` prints.
    process, redis = start_python(module, plan.queue, [report_fd], env=plan.variables, cwd=plan.cwd, stdout=2)
    config = replace(plan.config, redis_variable=redis).given()
    tell(process, json.dumps([config, report_fd, *given]).encode() + b"\n")
    return process


def taken() -> tuple[WorkerConfig, int, list[Any]]:
    del sys.argv[1:]
    given, report_fd, *rest = json.loads(sys.stdin.buffer.readline())
    config = WorkerConfig(**given)
    if config.redis_variable is not None:
        os.environ[REDIS_VARIABLE] = config.redis_variable
    return config, report_fd, rest


@dataclass(frozen=True, slots=True)
class Examined:
    queue: str
    handles: str
    problems: list[str]
    rights: list[str] = field(default_factory=list)
    """What the user may do: the roles of `sequencer acl`."""
    server: str | None = None
    waits: bool = False
    """Whether the start of a step waits for replicas, which takes one right more."""


def examine_all(plan: RunPlan) -> list[Examined]:
    """Load the application of each queue, and try the rights of each role. Raises ServerError."""
    endpoint = find_server(plan.redis)
    net, found = BlockingNet(endpoint.url, start_embedded), []
    for pool in plan.pools:
        one, shards = examine(pool), [shard_keys(plan.namespace, pool.queue, 0)]
        waits: tuple[Role, ...] = ("consume",) if one.waits else ()
        rights = finish(missing_rights(net, plan.namespace, pool.queue, shards, waits=waits))
        if one.server not in (None, endpoint.name):
            one.problems.append(refusal_text("app_other_server", {"server": one.server, "asked": endpoint.name}))
        if lacks := rights["consume"]:
            one.problems.append(
                refusal_text("rights_missing", {"server": endpoint.name, "role": "consume", "rights": lacks})
            )
        found.append(replace(one, rights=[role for role, lacks in rights.items() if not lacks]))
    net.close()
    return found


def examine(plan: PoolPlan) -> Examined:
    read_fd, write_fd = os.pipe()
    process = start_beside(MODULE, plan, write_fd, plan.check, None)
    os.close(write_fd)
    code = "app_ended_process"
    try:
        process.wait(limit_s := plan.config.start_timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        code = "import_too_slow"
    close_stdin(process)
    with os.fdopen(read_fd, "rb") as found:
        lines = found.read().splitlines()
    with suppress(ValueError, TypeError, IndexError):
        return Examined(**json.loads(lines[-1]))
    return Examined(plan.queue, "-", [refusal_text(code, {"status": process.returncode, "limit_s": limit_s})])


class CheckProcess:
    """Calls the check of a pool, if there is one."""

    def __init__(self, plan: PoolPlan, report_fd: int) -> None:
        self._plan, self._report_fd = plan, report_fd
        self._process: subprocess.Popen[bytes] | None = None
        self._starts_at, self._logged_at, self._logged = 0.0, -AGAIN_S, ""
        self.says: str | None = None
        """What the check said last; "": all is fine; None: it said nothing yet, or there is none."""

    def tick(self, now: float) -> None:
        if self._process is not None and self._process.poll() is not None:
            self.close()
        if self._plan.check and self._process is None and now >= self._starts_at:
            with suppress(OSError):
                self._process = start_beside(
                    MODULE, self._plan, self._report_fd, self._plan.check, self._plan.check_every_s
                )
            self._starts_at = now + AGAIN_S

    def replace(self, plan: PoolPlan) -> None:
        self.close()
        self._plan, self._starts_at = plan, 0.0

    def close(self) -> None:
        """It runs nobody's messages, so that nothing is waited for."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            close_stdin(self._process)
            self._process = self.says = None

    def take_report(self, report: dict[str, Any], emit: Callable[..., None], now: float) -> bool:
        """Log what the check said, if this is a report of it: when it begins or changes, once a minute at most."""
        if self._process is None or report["pid"] != self._process.pid:
            return False
        self.says = text = str(report.get("text", ""))
        if text and text != self._logged and now - self._logged_at >= AGAIN_S:
            self._logged, self._logged_at = text, now
            emit("check failed", text=error_text(text))
        elif not text:
            self._logged = ""
        return True


# -- in that process ------------------------------------------------------------------------------------------------


def main() -> None:
    """Call the check again and again with `every_s`; without, examine once."""
    config, report_fd, (check, every_s) = taken()
    if every_s is None:
        os.write(report_fd, json.dumps(asdict(_examined(config, check))).encode() + b"\n")
        os._exit(0)  # not by what the application does at its exit
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    threading.Thread(target=_call_again_and_again, args=(config, check, every_s, report_fd), daemon=True).start()
    sys.stdin.buffer.read()
    os._exit(0)


def _examined(config: WorkerConfig, check: str | None) -> Examined:
    problems, server, waits = list[str](), None, False
    try:
        if config.exec:
            check_command(config.exec)
        if config.app:
            app = load_app(config.app)
            client, _ = prepare(config)
            server = None if app.sequencer is None else client.endpoint.name
            waits = isinstance(app.handler, Steps | InlineHandler) and client.options.wait is not None
    except SequencerError as error:
        problems.append(str(error))
    try:
        if check:
            _check_function(check)
    except SequencerError as error:
        problems.append(str(error))
    return Examined(config.queue, config.handles, problems, server=server, waits=waits)


def _check_function(spec: str) -> Callable[[Any], Any]:
    with located("check"):
        function, _ = value_of(spec)
        if not callable(function) or isinstance(function, type):
            raise HandlerNotFound("check_type", name=spec, type=type(function).__name__)
    return function  # type: ignore[no-any-return]


def _call_again_and_again(config: WorkerConfig, check: str, every_s: float, report_fd: int) -> None:
    def report(text: str) -> None:
        with suppress(OSError):
            os.write(report_fd, report_line({"event": "says", "text": text}))

    client = Sequencer(config.queue, config.url, namespace=config.namespace)
    try:
        function = _check_function(check)
    except SequencerError as error:
        report(str(error))
        return
    while True:
        try:
            with not_in_a_copy():
                found = function(client.snapshot())
            if found is not None and not isinstance(found, str):
                raise ConfigurationError("check_result_invalid", name=check, value=found)
            report(found or "")
        except SequencerError as error:
            report(error_text(error))
        except Exception as error:
            report(f"{type_name(error)}: {error_text(error)}")
        time.sleep(every_s)


if __name__ == "__main__":
    main()
