"""On a queue that 0.4.0 made, 0.4.0, 0.5.0 and this version go on with each other's data, side by side.

A queue that this version made is refused by those, in a sentence.

A version that this one can't share a queue with is named in CHANGELOG.md, and leaves `versions.COMMITS`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import sequencer
from sequencer import EmbeddedServer, Sequencer
from sequencer.net.link import Link
from sequencer.settings.policy import Policy
from sequencer.store.keys import index_key, lane_keys
from sequencer.testing import judge, read_events, wait_until

from ..support.versions import COMMITS, LATER, PATIENCE_S, Version, unpacked

pytestmark = pytest.mark.slow
IN_GROUPS = {f"{group}": [f"l{group + lap}" for lap in (0, 20, 40)] for group in range(20)}
WROTE = {
    "dedup": [{"a": ["handled"]}, "stored", "duplicate", "IdConflict"],
    "late": {"handle": "stored", "dead_letter": "dead_letter", "drop": "dropped", "refuse": "LateMessage"},
    "sequence": [{"a": ["n1", "n2"]}, {"a": ["n1"]}],
    "timers": ["stored"] * 4,
    "contents": 60,
    "failed": [2, 2, 1],
    "paused": [True, True, {}],
    "audited": {"a": ["m0", "m1"]},
}
"""Part of version_process -> what its writer is answered, of whatever version it is; `leased` is told apart."""
READ = {
    "problems": [],
    "dedup": ["duplicate", "duplicate", "IdConflict", "stored", {"a": ["pending", "new"]}],
    "late": {
        "handle": ["stored", "stored", {"a": ["two late", "three late", "six"]}, []],
        "dead_letter": ["dead_letter", "stored", {"a": ["six"]}, ["two", "three"]],
        "drop": ["dropped", "stored", {"a": ["six"]}, []],
        "refuse": ["LateMessage", "stored", {"a": ["six"]}, []],
    },
    "sequence": [
        *({"a": ["n3"]}, "gap", "duplicate", "duplicate", "NumberTaken", {"a": ["n4", "n5"]}),
        *("gap", [2, 2], {"a": ["n3"]}, {"a": ["n1", "n3"]}),
    ],
    "timers": [["delayed"], {"far": 1, "replaced": 2, "soon": 1}, {"a": ["s1", "s2", "s3"]}],
    "contents": [
        {
            "deep": [["a", "b_c"], {"deep": [1, 2.5, "ü"]}, {"trace": "ü€", "k": ""}, True],
            "none": [["a_b", "c"], None, {}, True],
            "p1": [["p"], "p1", {}, True],
            "p2": [["p"], "p2", {}, True],
            "score": [["1002", "%:/"], 10**15, {"a": "b"}, -0.5],
        },
        *(4, IN_GROUPS),
    ],
    "failed": [
        [["a", 2, 2, ["ValueError", "no"]], ["b", 2, 2, ["ValueError", "no"]]],
        [[id, {"h": id}, 1, "SetAside", "so"] for id in ("bad1", "bad2")],
        [["parked", "parked"], True, "bad attempt 3", True, 1, 1],
        *({"a": ["bad", "next"], "b": ["next"]}, {"a": ["bad1 late redriven", "last"]}),
        *({"a": ["bad"]}, {"a": ["bad attempt 2", "next"]}),
    ],
    "paused": [[["a"]], ["paused", "queue paused"], {"b": ["b"]}, {}, True, True, {"a": ["a"]}, {"a": ["a"]}],
    "audited": [{"a": ["m2", "m3"]}, 4, 0, True],
}
"""What a reader of any version makes of it."""
OURS = Version(sequencer.__version__)
MESSAGES = 800
"""Of each producer, beside as many that all of them append."""
DIES_AT = 30
"""In which run a victim kills itself."""
ACK_S = 1.0
"""How long before its death a victim may have ended a run that is not acknowledged: it shares two cores with many."""


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Version]:
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    return {OURS.name: OURS, **unpacked(shared / "versions")}


@pytest.fixture
def environment(server: EmbeddedServer, namespace: str, tmp_path: Path) -> dict[str, str]:
    more = {"VERSION_URL": server.url, "VERSION_NAMESPACE": namespace, "VERSION_HISTORY": str(tmp_path / "history")}
    return {**os.environ, **more}


def hand_over(writer: Version, reader: Version, environment: dict[str, str], *parts: str) -> tuple[Any, Any]:
    """What the writer was answered until it was killed, and what the reader found then."""
    wrote = writer.run("version_process", environment, "write", *parts, status=-signal.SIGKILL)
    return wrote, reader.run("version_process", environment, "read", *parts)


@pytest.mark.parametrize("old", COMMITS)
@pytest.mark.parametrize("is_old_first", [True, False], ids=["written by", "read by"])
def test_one_version_goes_on_with_what_another_left(
    versions: dict[str, Version], old: str, is_old_first: bool, environment: dict[str, str]
) -> None:
    both = (versions[old], OURS) if is_old_first else (OURS, versions[old])
    wrote, read = hand_over(*both, environment)
    killed, kept = wrote.pop("leased")
    runs, token, *held = read.pop("leased")
    assert wrote == WROTE
    assert read == READ
    assert runs == ["k1 attempt 2", "k2"], "the lease of a killed consumer expires"
    assert token > killed["token"]
    held[2]["owner"] = held[2]["owner"].rstrip(" ")  # an older version shows the blanks that the new one stores
    assert held == ["leased", "leased", kept, False], "a lease that holds is respected, and shown with its owner"


@pytest.mark.parametrize("twin", ["a digit more", "a wrong flag"])
def test_a_record_with_another_head_is_noticed(
    versions: dict[str, Version], twin: str, environment: dict[str, str], namespace: str, link: Link
) -> None:
    wrote, read = hand_over(OURS._replace(twin=twin), versions["0.4.0"], environment, "contents")
    link.command("DEL", *link.command("KEYS", f"*{namespace}:*"))  # or the end of the test finds them broken
    assert wrote["contents"] == WROTE["contents"], "the twin itself notices nothing"
    assert read != {part: READ[part] for part in read}


def make_old(link: Link, namespace: str, name: str, *, lanes: int) -> None:
    """A queue as 0.4.0 makes it."""
    words = [word for pair in Policy().stored().items() for word in pair]
    link.command("HSET", index_key(namespace), name, lanes)
    for lane in range(lanes):
        link.command("HSET", lane_keys(namespace, name, lane).policy, *words)


def share(
    link: Link,
    versions: Iterable[Version],
    queue: Sequencer,
    environment: dict[str, str],
    messages: int,
    dies_at: int = 0,
) -> dict[str, str]:
    """Let a producer and a consumer of each version work on the queue until it is empty; beside them, with `dies_at`,
    a consumer of each that dies in that run. Process -> its version, of the consumers that live.
    """
    make_old(link, queue.options.namespace, "load", lanes=2)
    queue.connect()
    with ExitStack() as stack:

        def start(*words: object) -> dict[str, subprocess.Popen[str]]:
            started = {}
            for version in versions:
                started[version.name] = stack.enter_context(version.start("version_load", environment, *words))
                stack.callback(started[version.name].kill)
            return started

        victims = start("consume", dies_at) if dies_at else {}
        consumers, producers = start("consume"), start("produce", messages)
        for process in (*victims.values(), *consumers.values(), *producers.values()):
            if process.stdout and process.stdout.readline() != "ready\n":
                process.kill()
                raise AssertionError(process.communicate()[1])
        for process in producers.values():  # all are ready: they begin together
            if process.stdin:
                process.stdin.write("go\n")
                process.stdin.flush()
        ends = {name: process.communicate(timeout=PATIENCE_S)[1] for name, process in producers.items()}
        assert ends == dict.fromkeys(producers, ""), "every producer ended well"
        wait_until(lambda: queue.info().backlog == 0, PATIENCE_S, "everything is handled")
        for process in consumers.values():
            process.terminate()
        assert {process.wait(PATIENCE_S) for process in consumers.values()} == {0}
        assert {process.wait(PATIENCE_S) for process in victims.values()} <= {-signal.SIGKILL}
    return {str(process.pid): name for name, process in consumers.items()}


def test_all_versions_share_a_queue_that_an_old_one_made(
    versions: dict[str, Version], environment: dict[str, str], make: Callable[..., Sequencer], link: Link
) -> None:
    version_of = share(
        link, [OURS, *[versions[name] for name in COMMITS]], make("load", lanes=2), environment, MESSAGES, DIES_AT
    )
    events = read_events([environment["VERSION_HISTORY"]])
    judgement = judge(events, ack_s=ACK_S, expected=["killed", "duplicate refused"])
    assert judgement.is_clean, judgement.cases
    assert judgement.messages == (len(COMMITS) + 2) * MESSAGES
    assert judgement.effects["killed"] == len(COMMITS) + 1
    by_group = defaultdict[str, set[str]](set)
    for event in events:
        if event.what == "ended" and event.who in version_of:
            by_group[event.group].add(version_of[event.who])
    assert sum(len(names) > 1 for names in by_group.values()) > 25, "groups went from version to version"


def test_a_lease_of_another_length_is_noticed(
    versions: dict[str, Version], environment: dict[str, str], make: Callable[..., Sequencer], link: Link
) -> None:
    share(link, [versions["0.4.0"], OURS._replace(twin="leases in s")], make("load", lanes=2), environment, 300)
    judgement = judge(read_events([environment["VERSION_HISTORY"]]))
    assert judgement.disorder + judgement.unexplained > 0


@pytest.mark.parametrize("old", COMMITS)
def test_a_queue_that_is_made_now_is_refused_by_an_old_version_in_a_sentence(
    versions: dict[str, Version],
    old: str,
    environment: dict[str, str],
    make: Callable[..., Sequencer],
    link: Link,
) -> None:
    make("audited").append(1, group="a")
    before = dump(link, environment["VERSION_NAMESPACE"])
    with versions[old].start("version_process", environment, "write", "audited") as process:
        said = process.communicate(timeout=PATIENCE_S)[1]
    assert process.returncode == 1
    refused = (
        "'2: this program is too old'" if old in LATER else "queue 'audited' has b'p2' lanes; correct it with HSET"
    )
    assert refused in said
    assert dump(link, environment["VERSION_NAMESPACE"]) == before, "nothing was written"
    assert make("audited").info().backlog == 1


def dump(link: Link, namespace: str) -> dict[bytes, Any]:
    """Every key of a namespace, as the server would write it into a file."""
    return {name: link.command("DUMP", name) for name in sorted(link.command("KEYS", f"*{namespace}:*"))}


@pytest.mark.parametrize("is_connected", [True, False])
def test_a_client_of_protocol_1_is_refused_by_a_queue_that_is_new_or_was_raised(
    versions: dict[str, Version],
    environment: dict[str, str],
    make: Callable[..., Sequencer],
    link: Link,
    is_connected: bool,
) -> None:
    namespace, ours = environment["VERSION_NAMESPACE"], make("q")
    (old,) = [versions[name] for name in LATER]
    code = (
        "import os, sys; from sequencer import Sequencer\n"
        "seq = Sequencer('q', os.environ['VERSION_URL'], namespace=os.environ['VERSION_NAMESPACE'])\n"
        "for line in sys.stdin: print(seq.append(line, 'g').outcome, flush=True)"
    )
    with subprocess.Popen(
        [sys.executable, "-P", "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**environment, "PYTHONPATH": str(old.path)},
    ) as process:
        assert process.stdin
        assert process.stdout
        if is_connected:
            print("first", file=process.stdin, flush=True)
            assert process.stdout.readline() == "stored\n"
            assert link.command("HGET", index_key(namespace), "q") == b"p1"
            assert ours.append(3, "g").outcome == "stored", "a queue of protocol 1 works as before"
            assert ours.upgrade() == 2
        else:
            ours.append(1, "g")
        before = dump(link, namespace)
        told, said = process.communicate("second\n", timeout=PATIENCE_S)
    assert "'2: this program is too old'" in said
    assert told == ""
    assert dump(link, namespace) == before, "nothing was written"
    assert ours.consume(lambda message: None, until_empty=True).handled == (2 if is_connected else 1)


def test_a_copy_without_the_history_is_refused_with_a_sentence(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path / "shallow"], check=True)
    with pytest.raises(AssertionError, match=r"from commit 4969a6f\w+, which .*shallow does not have .*unshallow"):
        unpacked(tmp_path / "wheels", root=tmp_path / "shallow")
