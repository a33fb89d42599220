"""Instructions of the server for each message, counted by callgrind: they repeat to 1 %, where times do not.

`python -m benchmarks.scenarios.instructions` needs `valgrind` and `redis-server` on the PATH, and a minute or
two. A server that runs under callgrind gets a backlog, and then what a consumer sends:

    turn    one message a turn, each of another group: its ack, which gives the group back, and the next claim
    groups  claims of 100 groups with one message each, with the acks of the 100 before
    long    a backlog of 100 groups with 500 messages each, in claims of 500 messages as a consumer makes them
    plain   a script of 25 plain calls on keys with one field each, for comparison: SET, GET, HSET, HGET, ZADD

All that the server does for these commands counts: reading them, finding the script, the calls, the answers.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

from sequencer.calls import Ack, ack, claim
from sequencer.calls.claim import Claimed
from sequencer.client import Sequencer
from sequencer.net.endpoint import Endpoint
from sequencer.net.link import Link
from sequencer.settings.options import ClaimLimits
from sequencer.store.keys import ShardKeys, shard_keys

ARGUMENTS = ("--port", "0", "--save", "", "--hz", "1", "--dynamic-hz", "no", "--activerehashing", "no")
START_S = 60.0
ANSWER_S = "120"
"""Under callgrind all takes some 50 times as long."""
SCRIPT = """\
local call, text, hash, zset = redis.call, KEYS[1], KEYS[2], KEYS[3]
for n = 1, 5 do
  call('SET', text, 'value')
  call('GET', text)
  call('HSET', hash, 'field', 'value')
  call('HGET', hash, 'field')
  call('ZADD', zset, n, 'member')
end
"""
CASES = ("turn", "groups", "long")
QUEUE, NAMESPACE = "counted", "sequencer"


class Size(NamedTuple):
    """How much is counted."""

    turns: int = 300
    batches: int = 8
    long_groups: int = 100
    long_messages: int = 500


SMOKE = Size(turns=5, batches=1, long_groups=2, long_messages=20)


class Count(NamedTuple):
    """What one case took."""

    case: str
    messages: int
    instructions: int

    @property
    def each(self) -> float:
        return self.instructions / self.messages


class Counter:
    """A server under callgrind, and what it has counted."""

    def __init__(self, directory: Path, process: subprocess.Popen[bytes], url: str) -> None:
        self.directory, self.url = directory, url
        self._process = process
        self._dumps = 0

    def count(self, work: Callable[[], int], link: Link) -> tuple[int, int]:
        """How many messages `work` says it did, and how many instructions the server took for them."""
        self._control("--zero", link)
        messages = work()
        self._dumps += 1
        self._control("--dump", link)
        found = re.search(r"^(?:totals|summary): (\d+)", self._dump().read_text(), re.MULTILINE)
        if found is None:
            raise RuntimeError(f"callgrind says no total in {self._dump()}")
        return messages, int(found[1])

    def _control(self, what: str, link: Link) -> None:
        subprocess.run(["callgrind_control", what, str(self._process.pid)], check=True, capture_output=True)
        link.command("PING")  # it is carried out before the next instruction of the server

    def _dump(self) -> Path:
        return self.directory / f"out.{self._dumps}"


@contextmanager
def counted_server() -> Iterator[Counter]:
    """A server of its own under callgrind, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="sequencer-bench-") as name:
        directory = Path(name)
        socket, out = directory / "socket", directory / "out"
        tool = ("valgrind", "--tool=callgrind", f"--callgrind-out-file={out}")
        words = (*tool, "redis-server", *ARGUMENTS, "--unixsocket", str(socket), "--dir", name)
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            until = time.monotonic() + START_S
            while not socket.exists():
                if process.poll() is not None or time.monotonic() > until:
                    raise RuntimeError(f"no server under valgrind within {START_S:.0f} s")
                time.sleep(0.1)
            yield Counter(directory, process, f"unix://{socket}?socket_timeout={ANSWER_S}")
        finally:
            process.kill()
            process.wait()


class Consumer:
    """Sends what a consumer sends, and nothing that depends on time."""

    def __init__(self, link: Link, keys: ShardKeys, limits: ClaimLimits) -> None:
        self.link, self.keys, self.limits = link, keys, limits
        self.acks: list[Ack] = []

    def turn(self) -> int:
        """Acknowledge what was claimed last, and claim what comes next; returns how many messages that is."""
        next_claim = claim(self.keys, QUEUE, "owner-of-a-usual-length:12345", 30.0, self.limits, alone=0)
        calls = [ack(self.keys, self.acks, hint=False)] if self.acks else []
        claimed: Claimed = self.link.run([*calls, next_claim])[-1]
        self.acks = [
            Ack(group.key, group.token, list(group.members), True, str(group.scores[-1])) for group in claimed.groups
        ]
        return sum(len(group.messages) for group in claimed.groups)

    def turns(self, count: int) -> int:
        """This many turns, or all until nothing is left; returns how many messages they were."""
        done = 0
        for _ in range(count):
            taken = self.turn()
            if not taken:
                break
            done += taken
        return done


def measure(counter: Counter, size: Size, chosen: Sequence[str] = CASES) -> Iterator[Count]:
    """The chosen cases, each on keys of its own, after a few turns that are not counted. "plain" is always counted."""
    with linked(counter.url) as link:
        sha = link.command("SCRIPT", "LOAD", SCRIPT)

        def plain() -> int:
            for _ in range(100):
                link.command("EVALSHA", sha, 3, "{plain}1", "{plain}2", "{plain}3")
            return 100

        plain()
        yield Count("plain", *counter.count(plain, link))
    few = [(f"user-{n}", 1) for n in range(100 + size.turns)]
    many = [(f"user-{n}", 1) for n in range(100 * (size.batches + 3))]
    long = [(f"user-{n}", size.long_messages) for n in range(size.long_groups)]
    if "turn" in chosen:
        yield Count("turn", *_drained(counter, few, ClaimLimits(groups=1, messages=1), 20, size.turns))
    if "groups" in chosen:
        yield Count("groups", *_drained(counter, many, ClaimLimits(), 1, size.batches))
    if "long" in chosen:
        yield Count("long", *_drained(counter, long, ClaimLimits(), 1, 10**6))


def _drained(
    counter: Counter, backlog: Sequence[tuple[str, int]], limits: ClaimLimits, before: int, turns: int
) -> tuple[int, int]:
    with Sequencer(QUEUE, counter.url, namespace=NAMESPACE) as queue:
        queue.append_many(
            {"body": {"n": n}, "group": group, "id": f"{group}-{n}"} for group, count in backlog for n in range(count)
        )
    keys = shard_keys(NAMESPACE, QUEUE, 0)
    with linked(counter.url) as plain:
        generation = plain.command("HGET", keys.policy, "generation").decode()
        with linked(counter.url, generation) as link:
            consumer = Consumer(link, keys, limits)
            consumer.turns(before)
            found = counter.count(lambda: consumer.turns(turns), link)
        plain.command("FLUSHALL")  # a server of our own
    return found


@contextmanager
def linked(url: str, generation: str = "") -> Iterator[Link]:
    link = Link(Endpoint.from_url(url), SimpleNamespace(generation=generation), only_follows=True)
    try:
        yield link
    finally:
        link.close()


def main(words: Sequence[str]) -> None:
    """Print thousands of instructions a message and the ratio to the plain script.

    `--smoke` counts a few only; names of cases leave out the others.
    """
    missing = [name for name in ("valgrind", "redis-server") if not shutil.which(name)]
    if missing:
        sys.exit(f"error: {' and '.join(missing)} not on the PATH")
    wrong = {*words} - {"--smoke", *CASES}
    if wrong:
        sys.exit(f"error: {', '.join(sorted(wrong))}: the cases are {', '.join(CASES)}, the only option is --smoke")
    chosen = [name for name in CASES if name in words] or CASES
    with counted_server() as counter:
        base = 0.0
        for count in measure(counter, SMOKE if "--smoke" in words else Size(), chosen):
            base = base or count.each
            print(f"{count.case:8}{count.each / 1000:8.1f} thousand a message{count.each / base:8.2f} x", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
