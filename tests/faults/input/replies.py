"""Replies that no server of ours sends: of another type, damaged, cut short, or with an error in the middle.

Three ways to the same end, that only our own errors come out: any value as the reply of a script; the n-th reply of a
real server changed before the library takes it; and bytes changed on their way through a socket.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import redis

from sequencer import calls
from sequencer.errors import SequencerError
from sequencer.net.endpoint import Connection, Endpoint
from sequencer.net.link import Link
from sequencer.settings.options import ClaimLimits
from sequencer.store.item import Item
from sequencer.store.keys import shard_keys
from sequencer.testing.wire import Wire, wired

from .bench import Bench
from .explore import Several, Target
from .records import fill, methods, try_methods
from .tamper import Tamper

SOUND = (b'[["g","","","handle",["0000000000000001a"],1]]', b'[["g","","","handle",["0000000000000001a","1"],2]]')
"""What a claim says of one group, with the scores of its messages and without."""
CALLS: dict[str, calls.Call[Any]] = {
    "append": calls.append(shard_keys("n", "q", 0), [Item("g", name, "1.0", b"[1]") for name in "ab"]),
    "claim": calls.claim(shard_keys("n", "q", 0), "q", "me", 15.0, ClaimLimits()),
    "ack": calls.ack(shard_keys("n", "q", 0), [calls.Ack("g", "1" * 16, [], True)]),
    "nack": calls.nack(shard_keys("n", "q", 0), calls.Nack("g", "1" * 16, "2" * 16 + "a", 1, 1.0, b"{}")),
    "renew": calls.renew(shard_keys("n", "q", 0), [("g", "1" * 16)], 15.0),
    "resume": calls.resume(shard_keys("n", "q", 0), "g", b"", ""),
    "wake": calls.wake(shard_keys("n", "q", 0), "g"),
    "skip_gap": calls.skip_gap(shard_keys("n", "q", 0), "g", "", "", ""),
    "update": calls.update(shard_keys("n", "q", 0), "g", "a", "", ""),
    "redrive": calls.redrive(shard_keys("n", "q", 0), ["x"]),
    "purge": calls.purge(shard_keys("n", "q", 0), ["x"]),
    "find": calls.find(shard_keys("n", "q", 0), "a"),
    "sweep": calls.sweep(shard_keys("n", "q", 0)),
    "alert": calls.alert(
        shard_keys("n", "q", 0), [calls.Condition("dead", "open", "1", "1", "x")], ["a"], calls.AlertTimes(1.0)
    ),
    "alert_sent": calls.alert_sent(
        shard_keys("n", "q", 0), calls.Grant("dead", "open", "a", 1, 0, "1", "1", "x", False, "", 1)
    ),
    "pending_news": calls.pending_news(shard_keys("n", "q", 0), "a"),
    "told": calls.told(shard_keys("n", "q", 0), "a", cursor="0"),
    "inspect": calls.inspect(shard_keys("n", "q", 0), "g"),
    "repair": calls.repair(shard_keys("n", "q", 0), "g"),
}
ODD_BYTES = [
    b":1\r\n",
    b"$-1\r\n",
    b"*0\r\n",
    b"*-1\r\n",
    b"+OK\r\n",
    b"-ERR x\r\n",
    b"-OOM x\r\n",
    b":x\r\n",
    b"$x\r\n",
]
ODD_BYTES += [
    b"*2\r\n:1\r\n",
    b"$5\r\nab\r\n",
    b"\r\n",
    b"?\r\n",
    b"$-5\r\n",
    b"*1\r\n" * 50,
    b"HTTP/1.1 400 Bad\r\n\r\n",
]
ODD_BYTES += [b"$99999999999999999999\r\n", b"%1\r\n+a\r\n:1\r\n", b"-\r\n", b"*3\r\n:1\r\n-ERR x\r\n$-1\r\n"]


# -- one call, any reply --------------------------------------------------------------------------------------------


class Answer:
    """A connection that answers everything with the same reply."""

    def __init__(self, reply: Any) -> None:
        self.reply = reply

    def connect(self) -> None: ...
    def disconnect(self, *_: Any) -> None: ...
    def send_command(self, *_: Any, **__: Any) -> None: ...
    def read_response(self, *_: Any, **__: Any) -> Any:
        return self.reply


def check_reply(given: tuple[str, Any], known: dict[str, calls.Call[Any]] | None = None) -> str | None:
    """A script's reply is taken in, or refused with an error of our own."""
    name, reply = given
    with suppress(SequencerError):
        Link(Endpoint(lambda: Answer(reply), "a fake", None)).run_one((known or CALLS)[name])
        return None
    return "reply refused"


def reply_values() -> Any:
    """Anything a server can say in RESP2, and what it nearly says."""
    from hypothesis import strategies as st

    from . import strategies as inputs

    words = st.sampled_from(
        [b"[]", *SOUND, b'[["g"]]', b"[[]]", b"[1]", b'[["g", "x"]]', b'[["g", "1", "#x", "inf", "i"]]']
    )
    marks = st.sampled_from([b"+0000000000000001", b"=0000000000000000", b"+1", b"?0000000000000001", b"+" * 17])
    leaf = st.one_of(inputs.json_bytes, words, marks, inputs.records, st.integers(-2, 2**62), st.none())
    tree = st.recursive(leaf, lambda inner: st.lists(inner, max_size=5), max_leaves=20)
    claimed = st.tuples(st.integers(0, 2**53), leaf, words, leaf).map(list)
    halted = st.tuples(st.just(0), st.just(b"1"), st.just(b"[]"), st.just([]), leaf, st.one_of(words, leaf)).map(list)
    idle = st.tuples(st.integers(0, 2**53), leaf, st.integers(0, 3), leaf).map(list)
    facts = st.lists(leaf, min_size=16, max_size=16)
    checked = st.tuples(leaf, leaf, leaf, st.lists(st.lists(leaf, min_size=3, max_size=5), max_size=2)).map(list)
    shaped = st.one_of(claimed, halted, idle, facts, checked, tree)
    return st.tuples(st.sampled_from(sorted(CALLS)), shaped)


# -- the n-th reply of a real server --------------------------------------------------------------------------------


class Liar(Wire):
    """Changes replies by position, counted over all connections of a client; later ones come as they are."""

    def __init__(self, connection: Connection, changes: dict[int, Callable[[Any], Any]], seen: list[int]) -> None:
        super().__init__(connection)
        self._changes, self._seen = changes, seen

    def received(self, reply: Any) -> Any:
        self._seen[0] += 1
        change = self._changes.get(self._seen[0])
        return change(reply) if change else reply


def _try_each(bench: Bench, endpoint_of: Callable[[], Endpoint], names: Sequence[str]) -> None:
    """A fresh client for each method, so that each meets the change."""
    errors: list[Exception] = []
    for name in names:
        with suppress(SequencerError), bench.client(endpoint_of(), backoff=0.0) as client:
            try:
                methods(client, bench)[name]()
            except SequencerError:
                raise
            except Exception as error:
                error.add_note(f"in {name}")
                errors.append(error)
    if errors:
        raise Several(errors)


def check_lies(given: tuple[int, Any, Sequence[str]], bench: Bench) -> str | None:
    """A client whose n-th reply is something else."""
    position, change, names = given
    fill(bench, {})
    counts: list[list[int]] = []

    def endpoint() -> Endpoint:
        counts.append(seen := [0])
        return wired(bench.endpoint, lambda inner: Liar(inner, {position: change}, seen))

    _try_each(bench, endpoint, names)
    return "reply replaced" if any(seen[0] >= position for seen in counts) else None


class Replace:
    """A change whose repr says what it does."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __call__(self, reply: Any) -> Any:
        return self.value

    def __repr__(self) -> str:
        return f"-> {self.value!r}"


def _shorter(reply: Any) -> Any:
    return reply[:-1] if isinstance(reply, list | bytes) else reply


def _doubled(reply: Any) -> Any:
    return reply * 2 if isinstance(reply, list | bytes) else reply


# -- bytes on their way ---------------------------------------------------------------------------------------------


def check_bytes(given: tuple[int, Callable[[bytes], bytes]], bench: Bench) -> str | None:
    """All methods of one client whose n-th chunk of replies is damaged on its way."""
    position, change = given
    fill(bench, {})
    tamper = Tamper(bench.directory / "t", bench.url.removeprefix("unix://"), position, change)
    try:
        with suppress(SequencerError), bench.client(f"unix://{tamper.path}", backoff=0.0) as client:
            try_methods(client, bench)
    finally:
        tamper.close()
    return "reply damaged on its way" if tamper.is_done else None


class Flip(Replace):
    """One byte of a chunk changed."""

    def __call__(self, reply: bytes) -> bytes:
        at, by = self.value
        return reply[: at % len(reply)] + bytes([reply[at % len(reply)] ^ by]) + reply[at % len(reply) + 1 :]


class Cut(Replace):
    """A chunk cut short."""

    def __call__(self, reply: bytes) -> bytes:
        return reply[: self.value % len(reply)]


def script_target() -> Target:
    """Any reply to a script: needs no server."""
    return Target("replies to a script", reply_values(), check_reply, 200)


def targets(bench: Bench) -> list[Target]:
    """Replies of every kind."""
    from hypothesis import strategies as st

    from . import strategies as inputs

    errors = ["ERR x", "BUSY x", "OOM x", "MOVED 1 x:1", "NOPERM x", "MISCONF x", "LOADING x", "\udcff", ""]
    values: st.SearchStrategy[Any] = st.one_of(
        st.sampled_from([None, [], b"", 0, -1, b"OK", [None], [[]], 2**62, [b"1"] * 20, b"\xff"]),
        inputs.json_bytes,
        st.sampled_from(errors).map(redis.ResponseError),
    )
    change = st.one_of(values.map(Replace), st.sampled_from([_shorter, _doubled]))
    names = sorted(methods(bench.client(), bench))
    lies = st.tuples(st.integers(1, 14), change, st.lists(st.sampled_from(names), min_size=1, max_size=4, unique=True))
    pairs = st.tuples(st.integers(0, 300), st.integers(1, 255))
    damage = st.one_of(st.sampled_from(ODD_BYTES).map(Replace), pairs.map(Flip), st.integers(0, 300).map(Cut))
    return [
        script_target(),
        Target("replies changed", lies, partial(check_lies, bench=bench), 25, shrinks=False),
        Target(
            "replies damaged on their way",
            st.tuples(st.integers(1, 30), damage),
            partial(check_bytes, bench=bench),
            12,
            False,
        ),
    ]
