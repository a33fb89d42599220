"""The append-only file cut at every byte of the last write: afterwards all of what a script did is there, or nothing.

The server starts from each cut file. Its data are compared with those before and after the write, audited, and drained:
once for each different state, since a server does the same with the same data. A write that is not one script
(`HALF`) is the control: cut in the middle, it must be found.
"""

from __future__ import annotations

import hashlib
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sequencer.client import Sequencer
from sequencer.net.link import Link
from sequencer.store.group import decode_group
from sequencer.store.keys import ShardKeys, shard_keys
from sequencer.values.message import Message

from ...support.invariants import check_invariants
from .found import Found
from .host import LISTING, Host, binaries, running, workplace
from .load import NAMESPACE, QUEUE
from .writes import WRITES, Scene, Write

SETTINGS = ("--appendonly", "yes", "--appendfsync", "always", "--aof-load-truncated", "yes")
State = dict[bytes, Any]


@dataclass
class Cuts:
    """What came of one write. `partial` and `broken` must be empty."""

    size: int = 0
    tried: int = 0
    before: int = 0
    after: int = 0
    partial: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)


def cut_write(directory: Path, write: Write, *, binary: str | None = None, step: int = 1) -> Cuts:
    """Make the write on a server of its own, and start one from each `step`-th cut of it, and from the last ones."""
    host = Host(directory / "whole", *SETTINGS, binary=binary)
    keys = [shard_keys(NAMESPACE, QUEUE, 0)]
    with running(host), host.link() as link:
        seq = _sequencer(host)
        last = write(Scene(seq, link, keys))
        states, start = [state_of(link)], host.aof.stat().st_size
        last()
        states.append(state_of(link))
        end, name = host.aof.stat().st_size, host.aof.name
        seq.close()
    found, looked = Cuts(end - start), dict[str, list[str]]()
    for at in _places(start, end, step):
        place = directory / "cut"
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(host.directory / LISTING, place / LISTING)
        with (place / LISTING / name).open("r+b") as file:
            file.truncate(at)
        _judge_cut(Host(place, *SETTINGS, binary=binary), states, keys, found, looked, f"byte {at - start}")
    return found


def _places(start: int, end: int, step: int) -> Iterator[int]:
    edges = {start, start + 1, end - 1, end}
    return iter(sorted(edges | set(range(start, end, step)), reverse=True))


def _judge_cut(
    host: Host, states: list[State], keys: list[ShardKeys], found: Cuts, looked: dict[str, list[str]], said: str
) -> None:
    with running(host), host.link() as link:
        state = state_of(link)
        found.tried += 1
        found.before += state == states[0]
        found.after += state == states[1]
        if state not in states:
            found.partial.append(f"{said}: neither what was before nor what was after")
        digest = hashlib.sha256(repr(sorted(state.items())).encode()).hexdigest()
        if digest not in looked:
            looked[digest] = check_invariants(link, keys) or _drain(host, link, keys)
        found.broken += [f"{said}: {problem}" for problem in looked[digest]]


def _sequencer(host: Host) -> Sequencer:
    return Sequencer(QUEUE, host.url, namespace=NAMESPACE)


def _drain(host: Host, link: Link, keys: list[ShardKeys]) -> list[str]:
    """What is wrong when all is handled that may be."""
    waiting = {(group, id): place for shard in keys for group, id, place in _pending(link, shard)}
    seen: defaultdict[tuple[str, ...], list[Message]] = defaultdict(list)
    with _sequencer(host) as seq:
        seq.consume(lambda message: seen[message.group].append(message), until_empty=True)
    problems = check_invariants(link, keys)
    handled = {(message.group, message.id) for messages in seen.values() for message in messages}
    problems += [f"{name} was not handled" for name in waiting.keys() - handled]
    problems += [f"{name} was not there, and handled" for name in handled - waiting.keys()]
    for group, messages in seen.items():
        places = [(message.score, message.stamp) for message in messages]
        problems += [] if places == sorted(set(places)) else [f"group {group} out of order: {places}"]
    return problems


def _pending(link: Link, keys: ShardKeys) -> Iterator[tuple[tuple[str, ...], str, float]]:
    """Group, id and score of what a consumer is to handle."""
    if link.command("HGET", keys.policy, "paused") == b"1":
        return
    paused = link.command("SMEMBERS", keys.paused)
    groups = link.command("ZRANGE", keys.schedule, 0, -1, "WITHSCORES")
    for group, at in zip(groups[::2], groups[1::2], strict=True):
        words = link.command("ZRANGE", keys.order(group.decode()), 0, -1, "WITHSCORES")
        if at != b"inf" and group not in paused:
            for member, score in zip(words[::2], words[1::2], strict=True):
                yield decode_group(group.decode()), member[16:].decode(), float(score)


def state_of(link: Link) -> State:
    """Everything on the server, in a form that can be compared."""
    keys = sorted(link.command("KEYS", "*"))
    kinds = link.commands([("TYPE", key) for key in keys]) if keys else []
    read: dict[bytes, Callable[[bytes], tuple[Any, ...]]] = {
        b"string": lambda key: ("GET", key),
        b"hash": lambda key: ("HGETALL", key),
        b"set": lambda key: ("SMEMBERS", key),
        b"list": lambda key: ("LRANGE", key, 0, -1),
        b"zset": lambda key: ("ZRANGE", key, 0, -1, "WITHSCORES"),
        b"stream": lambda key: ("XRANGE", key, "-", "+"),
    }
    values = link.commands([read[kind](key) for key, kind in zip(keys, kinds, strict=True)]) if keys else []
    return {key: _plain(kind, value) for key, kind, value in zip(keys, kinds, values, strict=True)}


def _plain(kind: bytes, value: Any) -> Any:
    if kind == b"hash":
        return sorted(zip(value[::2], value[1::2], strict=True))
    return sorted(value) if kind == b"set" else value


def cut(found: Found) -> None:
    """Each kind of write, on each server there is."""
    steps = {"smoke": 10_000, "ci": 400, "nightly": 1}
    names = list(WRITES) if found.scale != "smoke" else ["append", "ack and release"]
    servers = list(binaries().items())
    all_cuts: defaultdict[str, dict[str, Cuts]] = defaultdict(dict)
    for number, name in enumerate(names):
        # A slice of CI takes turns between the servers; the whole of it takes all.
        chosen = servers if found.scale == "nightly" else [servers[(found.seed + number) % len(servers)]]
        for version, binary in chosen:
            with workplace() as directory:
                cuts = cut_write(directory, WRITES[name], binary=binary, step=steps[found.scale])
            found.runs += cuts.tried
            found.faults["append-only file cut"] += cuts.tried
            if not (cuts.before and cuts.after):
                found.problem(f"{name} on {version}: seen before {cuts.before} times, after {cuts.after} times")
            for text in (cuts.partial + cuts.broken)[:3]:
                found.problem(f"{name} on {version}: {text}")
            all_cuts[version][name] = cuts
    for version, kinds in all_cuts.items():
        some = kinds.values()
        found.figures[f"append-only file cut in its last write, {version}"] = (
            f"{sum(cuts.tried for cuts in some)} cuts in {sum(cuts.size for cuts in some)} bytes, "
            f"{sum(len(cuts.partial) for cuts in some)} half there, {sum(len(cuts.broken) for cuts in some)} broken; "
            f"kinds: {', '.join(kinds)}"
        )
