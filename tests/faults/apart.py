"""FaultTests in processes of their own, some side by side: most of them wait more than they work."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields

from .report import Result, Scale


class Shards:
    """FaultTests one after the other within a shard, the shards side by side."""

    def __init__(self, scale: Scale) -> None:
        self._scale: Scale = scale
        self._running: list[subprocess.Popen[bytes]] = []
        self._is_ended = False

    def run(self, shards: Sequence[Sequence[str]]) -> list[Result]:
        """The results, shard by shard. However this ends, no fault_test goes on."""
        with ThreadPoolExecutor(len(shards)) as pool:
            try:
                done = [pool.submit(self._shard, names) for names in shards]
                return [result for future in done for result in future.result()]
            except BaseException:
                self._is_ended = True
                for process in tuple(self._running):
                    process.terminate()
                raise

    def _shard(self, names: Sequence[str]) -> list[Result]:
        return [self._fault_test(name) for name in names if not self._is_ended]

    def _fault_test(self, name: str) -> Result:
        words = [sys.executable, "-m", __package__ or "", name, "--scale", self._scale, "--json"]
        # A group of its own: a terminal's Ctrl-C is for all of a group, and our word would cut short what that began.
        with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, process_group=0) as process:
            self._running.append(process)
            if self._is_ended:  # between the look before and this
                process.terminate()
            said, _ = process.communicate()
            self._running.remove(process)
        try:
            (found,) = json.loads(said)["results"]
        except ValueError:
            command = f"python -m tests.faults {name} --scale {self._scale}"
            return Result(name=name, command=command, problems=[f"it ended with status {process.returncode}"])
        return Result(**{field.name: found[field.name] for field in fields(Result)})
