"""Fixtures: a real server of our own for the whole run, a namespace for each test, and an audit at its end.

`SEQUENCER_TEST_BINARY` names another server binary to test with; with `SEQUENCER_TEST_ACL=1` all that is tested
connects as a user with the least rights (`acl_rules`), while the fixtures stay the default user. A server that can't be
started fails the run: nothing here is skipped for want of one.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from sequencer import EmbeddedServer, Sequencer
from sequencer.doctor.rights import acl_rules
from sequencer.net.endpoint import Endpoint
from sequencer.net.link import Link
from sequencer.store.keys import shard_keys

from .support.invariants import check_invariants

KEPT = ("SEQUENCER_TEST_BINARY", "SEQUENCER_TEST_ACL")
ACL_USER = "least"
KEYS = ("~{t*", "~t*:queues")
"""Of the namespaces that tests use on the common server."""
OTHER_RIGHTS = {
    "the benchmark has a namespace of its own, and a peer that needs CONFIG": (
        "test_benchmarks.py::test_a_scenario_on_a_server_that_is_there",
    ),
    "the test itself writes another key": ("test_an_append_joins_the_callers_transaction",),
    "the test itself runs SCRIPT FLUSH, CONFIG SET, CLIENT KILL or KEYS": (
        *("test_a_new_connection_brings_its_scripts_along", "test_timers_that_came_due_while_nobody_ran_all_fire"),
        *("test_scripts_and_model_agree", "test_a_waiting_consumer_knows_the_connection_on_which_it_waits"),
        "test_a_script_that_the_server_lost_is_left_to_the_next_claim",
        "test_a_connection_that_is_lost_before_its_answer_is_told_of_as_such",
    ),
}

# A busy machine makes any example slow: a deadline in wall time would say nothing of the code.
hypothesis.settings.register_profile("tests", deadline=None)
hypothesis.settings.load_profile("tests")

# A shell without job control lets what it starts in the background ignore SIGINT, and `nohup` SIGHUP. All that we start
# would inherit that, and the processes to which tests send one of them would never hear it.
for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """`-m "not slow"` leaves out those of the night too: it takes the place of the `-m` in pyproject.toml.

    With SEQUENCER_TEST_ACL, tests that do something besides what sequencer does are skipped, and say what.
    """
    for item in items:
        if item.get_closest_marker("nightly"):
            item.add_marker(pytest.mark.slow)
    for item in items if os.environ.get("SEQUENCER_TEST_ACL") else ():
        for reason, names in OTHER_RIGHTS.items():
            if any(name in item.nodeid for name in names):
                item.add_marker(pytest.mark.skip(reason=f"least rights: {reason}"))


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test may meet the settings or the embedded server of whoever runs it."""
    for name in list(os.environ):
        if name.startswith("SEQUENCER_") and name not in KEPT:
            monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def server() -> Iterator[EmbeddedServer]:
    """One server for the run, in a short path (a socket's name holds 107 bytes)."""
    directory = Path(tempfile.mkdtemp(prefix="sqt-"))
    with EmbeddedServer(directory, binary=os.environ.get("SEQUENCER_TEST_BINARY")) as running:
        yield _Restricted(running) if os.environ.get("SEQUENCER_TEST_ACL") else running
    shutil.rmtree(directory)


class _Restricted(EmbeddedServer):
    """The server as a user with the least rights sees it, in the namespaces of the tests only."""

    def __init__(self, running: EmbeddedServer) -> None:
        super().__init__(running.directory)
        link = Link(Endpoint.from_url(running.url))
        commands = [word for word in acl_rules("t", "admin") if word.startswith("+")]
        link.command("ACL", "SETUSER", ACL_USER, "on", ">least", "resetchannels", *KEYS, *commands)
        link.close()

    @property
    def url(self) -> str:
        return f"unix://{ACL_USER}:least@{self.socket}"


@pytest.fixture
def link(server: EmbeddedServer) -> Iterator[Link]:
    """A plain connection to the server, for looking at keys; of the default user."""
    link = Link(Endpoint.from_url(f"unix://{server.socket}"))
    yield link
    link.close()


@pytest.fixture
def namespace(link: Link) -> Iterator[str]:
    """A namespace of the test's own. At its end: the invariants of every queue in it, then its keys are deleted."""
    name = f"t{uuid.uuid4().hex[:12]}"
    yield name
    everything = link.command("KEYS", "*")
    shards = {found for key in everything if (found := shard_in(name, key))}
    problems: list[str] = []
    for queue in sorted({queue for queue, _ in shards}):
        numbers = sorted(int(shard) for one, shard in shards if one == queue)
        problems += check_invariants(link, [shard_keys(name, queue, shard) for shard in numbers])
    ours = [key for key in everything if key.startswith((f"{name}:".encode(), f"{{{name}:".encode()))]
    if everything:
        link.command("DEL", *everything)  # what is another's is told here, and not of each test that follows
    assert not problems, f"invariants broken at the end of the test: {problems}"
    assert len(ours) == len(everything), f"keys outside the namespace: {set(everything) - set(ours)}"


def shard_in(namespace: str, key: bytes) -> tuple[str, str] | None:
    """The queue and the shard of a numbered shard's key."""
    found = re.match(rf"\{{{re.escape(namespace)}:([^:]+):(\d+)\}}:", key.decode("utf-8", "replace"))
    return (found[1], found[2]) if found else None


@pytest.fixture
def make(server: EmbeddedServer, namespace: str) -> Iterator[Callable[..., Sequencer]]:
    """Makes clients of the test's namespace; closes them at the end."""
    made: list[Sequencer] = []

    def make(queue: str = "jobs", **options: Any) -> Sequencer:
        made.append(Sequencer(queue, options.pop("redis", server.url), namespace=namespace, **options))
        return made[-1]

    yield make
    for sequencer in made:
        sequencer.close()


@pytest.fixture
def seq(make: Callable[..., Sequencer]) -> Sequencer:
    """A client with quick retries."""
    return make(backoff=0.01)
