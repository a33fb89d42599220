"""Load from real processes: producers and consumers that go on through everything and record what they saw.

`python -m tests.faults.server.load SPEC` is one such process; SPEC is the JSON of `Spec`. SIGTERM ends it after the
message in progress. `Load` starts them, and waits until all is handled.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from sequencer.client import Sequencer
from sequencer.consume.threads import Consumer
from sequencer.errors import OutcomeUnknown, QueueFull, SequencerError
from sequencer.net.link import Link
from sequencer.store.group import encode_group
from sequencer.store.keys import ShardKeys, shard_keys
from sequencer.values.message import Message

from ...support.judge.history import Event, Recorder, read_events
from .host import go_on

QUEUE = "jobs"
NAMESPACE = "faults"
AGAIN_S = 0.02
"""How long a process waits before it retries what was refused."""
END_S = 20.0


@dataclass(frozen=True)
class Spec:
    """What one process does."""

    role: str = ""
    who: str = ""
    file: str = ""
    url: str = ""
    sentinel: int = 0
    """Port of a Sentinel on the loopback that knows the server as "primary"; instead of `url`."""
    groups: int = 20
    rate: float = 400.0
    """Appends a second of one producer, at most."""
    work_s: float = 0.001
    lease_s: float = 1.0
    seed: int = 0
    options: Mapping[str, Any] | None = None
    """Of the Sequencer."""


class Tally:
    """Counts the events of a file that grows; each look reads only what is new."""

    def __init__(self, path: Path) -> None:
        self._path, self._seen, self._counts = path, 0, Counter[str]()

    def look(self) -> Counter[str]:
        with open(self._path, "rb") as file:
            file.seek(self._seen)
            lines, _, _ = file.read().rpartition(b"\n")
        if lines:
            self._seen += len(lines) + 1
            self._counts.update(orjson.loads(line)["what"] for line in lines.split(b"\n"))
        return self._counts


class Load:
    """Processes on one server, and what they recorded, in a directory."""

    def __init__(self, directory: Path, spec: Spec) -> None:
        self.directory, self.spec = directory, spec
        directory.mkdir(parents=True, exist_ok=True)
        self.recorder = Recorder(directory / "lead", "lead")
        self.keys: ShardKeys = shard_keys(NAMESPACE, QUEUE, 0)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._tallies: dict[Path, Tally] = {}

    def start(self, producers: int = 1, consumers: int = 2) -> None:
        for role, count in (("produce", producers), ("consume", consumers)):
            for number in range(count):
                who = f"{role}{number}"
                spec = replace(self.spec, role=role, who=who, file=str(self.directory / who))
                words = [sys.executable, "-m", __spec__.name, json.dumps(asdict(spec))]
                with open(self.directory / f"{who}.err", "wb") as errors:
                    self._processes[who] = subprocess.Popen(words, stderr=errors)

    def stop(self, role: str = "") -> None:
        """End these processes, all by default: SIGTERM, and SIGKILL for one that does not end."""
        mine = {who: process for who, process in self._processes.items() if who.startswith(role)}
        for process in mine.values():
            process.terminate()
        for who, process in mine.items():
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                self.recorder.note("seen", kind=f"{who} did not end")
            del self._processes[who]

    def events(self) -> list[Event]:
        return read_events([path for path in self.directory.iterdir() if not path.suffix])

    def count(self, what: str, role: str = "") -> int:
        """How many such events there are by now."""
        files = [path for path in self.directory.iterdir() if not path.suffix and path.name.startswith(role)]
        return sum(self._tallies.setdefault(path, Tally(path)).look()[what] for path in files)

    def crashes(self) -> list[str]:
        """Processes that ended by themselves, with the last line they said."""
        ended = [who for who, process in self._processes.items() if process.poll() is not None]
        said = {who: (self.directory / f"{who}.err").read_text(errors="replace").strip() for who in ended}
        return [f"{who} ended by itself: {text.splitlines()[-1] if text else 'no word'}" for who, text in said.items()]

    def drain(self, link: Link, timeout_s: float = 30.0) -> bool:
        """End the producers, wait until nothing is left but parked groups, end the consumers. False if it is not."""
        self.stop("produce")
        is_empty = wait(lambda: left(link, self.keys) == 0, timeout_s)
        if is_empty:
            self.recorder.note("drained")
        self.stop()
        return is_empty


def left(link: Link, keys: ShardKeys) -> int:
    """Groups that have messages and may go on; -1 when the server does not say."""
    with suppress(SequencerError):
        all_groups, parked = link.commands([("ZCARD", keys.schedule), ("ZCOUNT", keys.schedule, "inf", "inf")])
        return int(all_groups) - int(parked)
    return -1


def wait(is_so: Callable[[], bool], timeout_s: float, pause_s: float = 0.01) -> bool:
    """Whether it became so in time. Raises Interrupted when the fault test is ended."""
    until = time.monotonic() + timeout_s
    while not is_so():
        go_on()
        if time.monotonic() > until:
            return False
        time.sleep(pause_s)
    return True


# -- in the process ---------------------------------------------------------------------------------------------


class Ending:
    """A note set by SIGTERM. A consumer is told of one that came before it took care of signals itself."""

    def __init__(self) -> None:
        self._since = float("inf")
        self._consumer: Consumer | None = None
        signal.signal(signal.SIGTERM, self._note)

    def _note(self, *_: Any) -> None:
        self._since = time.monotonic()
        if self._consumer:
            self._consumer.stop()

    def concerns(self, consumer: Consumer) -> None:
        self._consumer = consumer
        if self.is_asked():
            consumer.stop()

    def is_asked(self, since_s: float = 0.0) -> bool:
        """Whether it was asked to end, so long ago."""
        return time.monotonic() >= self._since + since_s


def connect(spec: Spec) -> Sequencer:
    redis: Any = spec.url
    if spec.sentinel:
        from redis import Sentinel

        sentinel: Any = Sentinel([("127.0.0.1", spec.sentinel)], socket_timeout=1.0)  # type: ignore[no-untyped-call]
        redis = sentinel.master_for("primary")
    return Sequencer(QUEUE, redis, namespace=NAMESPACE, **(spec.options or {}))


def _numbers(spec: Spec) -> Iterator[tuple[str, str, float]]:
    chance = random.Random(f"{spec.seed} {spec.who}")
    number = 0
    while True:
        number += 1
        yield f"g{chance.randrange(spec.groups)}", f"{spec.who}-{number}", float(number)


def produce(spec: Spec, recorder: Recorder) -> None:
    """Append until told to end; what has no outcome is appended again until it has one."""
    ending, seq = Ending(), connect(spec)
    for group, id, score in _numbers(spec):
        if ending.is_asked():
            break
        fields = {"group": encode_group(group), "id": id, "score": score}
        recorder.note("appending", **fields)
        began = time.monotonic()
        while not ending.is_asked(END_S / 2):
            try:
                receipt = seq.append({"n": score}, group, id=id, score=score)
            except SequencerError as error:
                kind = type(error).__name__
                recorder.note("unknown" if isinstance(error, OutcomeUnknown) else "refused", kind=kind, **fields)
                time.sleep(AGAIN_S * (5 if isinstance(error, QueueFull) else 1))
            else:
                kind = "duplicate" if receipt.duplicate else "stored"
                recorder.note("appended", kind=kind, stamp=receipt.stamp or 0, **fields)
                break
        time.sleep(max(0.0, began + 1 / spec.rate - time.monotonic()))


def consume(spec: Spec, recorder: Recorder) -> None:
    """Handle until stopped; a consumer that ended with an error is followed by another, as a supervisor would.

    Every other one has worker slots.
    """
    ending, seq, concurrency = Ending(), connect(spec), 8 if int(spec.who[-1]) % 2 else None

    def handle(_: Message) -> None:
        time.sleep(spec.work_s)

    while not ending.is_asked():
        try:
            options: Any = {"lease": spec.lease_s, "concurrency": concurrency, "on_start": ending.concerns}
            if seq.consume(recorder.run(handle), **options).reason == "stopped":
                return
        except SequencerError as error:
            recorder.note("seen", kind=type(error).__name__)
            time.sleep(AGAIN_S)


def main() -> None:
    spec = Spec(**json.loads(sys.argv[1]))
    recorder = Recorder(spec.file, spec.who)
    {"produce": produce, "consume": consume}[spec.role](spec, recorder)


if __name__ == "__main__":
    main()
