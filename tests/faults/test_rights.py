"""Least rights: a user who has them does the whole job, and one who lacks any of them is told which before it begins.

Redis looks at rights command by command, also inside a script, and undoes nothing. So a missing right must show before
the first message is appended or handled, and no key may have changed until then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

import sequencer.queue.session
from sequencer import Sequencer
from sequencer.doctor.diagnose import diagnose, is_healthy
from sequencer.doctor.rights import ROLES, WISHED, Role, acl_rules, commands_of, needed
from sequencer.errors import NotReplicated, Park, ServerNotUsable, SetAside
from sequencer.net.endpoint import Endpoint
from sequencer.values.message import Message

from ..support.refused import refused
from .server.cut import state_of
from .server.host import Host, running, workplace

pytestmark = pytest.mark.nightly

NAMESPACE, QUEUE = "rights", "jobs"


class Users:
    """Users of a server, made and used one after the other."""

    def __init__(self, host: Host) -> None:
        self.host = host

    def make(self, name: str, rules: list[str]) -> str:
        """The URL of a user with exactly these rights."""
        self.host.command("ACL", "SETUSER", name, "reset", "on", ">word", "resetchannels", *rules)
        return f"unix://{name}:word@{self.host.socket}"

    def state(self) -> dict[bytes, Any]:
        with self.host.link() as link:
            return state_of(link)


@pytest.fixture
def users() -> Iterator[Users]:
    with workplace() as directory, running(Host(directory)) as host:
        yield Users(host)


def queue(url: str) -> Sequencer:
    return Sequencer(QUEUE, url, namespace=NAMESPACE, max_attempts=1, backoff=0.01)


# -- what is missing --------------------------------------------------------------------------------------------------


@dataclass
class Lacks:
    """What was tried, and in how many cases something had been written or handled when the right was found missing."""

    rights: int = 0
    changed: int = 0
    problems: list[str] = field(default_factory=list)


def rules_of(role: Role) -> list[str]:
    return acl_rules(NAMESPACE, role)


def lacking_one(role: Role, rules: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Each right that a role needs, and the rules without it. A pattern that allows reading only lacks that to write.

    What it goes on without is left out: tests/server/test_no_consumers.py.
    """
    wished = [f"+{name.lower()}" for name in WISHED.get(role, [])]
    for right in rules:
        if right not in wished:
            yield right, [rule for rule in rules if rule != right]
    pattern = rules[0]
    yield pattern, [f"~{{{NAMESPACE}:other:*", *rules[1:]]
    yield pattern, [f"%R{pattern}", *rules[1:]]


def take_each_away(users: Users, role: Role) -> Lacks:
    found = Lacks()
    for right, rules in lacking_one(role, rules_of(role)):
        found.rights += 1
        users.host.command("FLUSHALL")
        if role != "append":
            with queue(users.host.url) as seq:
                seq.append(1, group="g", id="a")
                if role == "operate":
                    seq.consume(park, until_empty=True)
        before = users.state()
        said, done = try_role(role, users.make(f"no{found.rights}", rules))
        # A pattern is named for the queue in question, not for the namespace: that is all it takes.
        wanted = f"~{{{NAMESPACE}:{QUEUE}:*" if right.startswith("~{") else right
        words = said.replace(";", " ").split()
        # A mere look, with which operating begins, says what patterns look like; the checks before writing name them.
        is_hinted = role == "operate" and right.startswith("~") and "~NAMESPACE:queues" in words
        if not (wanted in words or f"'{right[1:]}'" in words or is_hinted):
            found.problems.append(f"without {right}: it is not named in {said!r}")
        if done or (role != "admin" and users.state() != before):
            found.changed += 1
            found.problems.append(f"without {right}: {done or 'keys had changed'} before the error")
    return found


def try_role(role: Role, url: str) -> tuple[str, str]:
    """What the user is told, and what was done."""
    handled: list[str] = []
    if role == "admin":
        found = diagnose(Endpoint.from_url(url), NAMESPACE, QUEUE)
        return " ".join(one.text for one in found if one.level != "ok"), ""
    try:
        with queue(url) as seq:
            if role == "append":
                return f"no error, {seq.append(1, group='g')}", "a message was appended"
            if role == "operate":
                return f"no error, {seq.skip('g')}", "a message was skipped"
            seq.consume(lambda message: handled.append(message.id), until_empty=True)
            return "no error", "a message was handled"
    except ServerNotUsable as error:
        return str(error), f"{len(handled)} messages were handled" if handled else ""


def park(message: Message) -> None:
    raise Park("it waits for a person")


@pytest.mark.parametrize("role", ROLES)
def test_each_missing_right_is_named_before_anything_is_done(users: Users, role: Role) -> None:
    found = take_each_away(users, role)
    assert found.problems == []
    assert found.rights > 20


def test_without_the_check_groups_are_half_written(users: Users, monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(*_: Any, **__: Any) -> dict[Any, list[str]]:
        return {role: [] for role in ROLES}

    monkeypatch.setattr(sequencer.queue.session, "missing_rights", nothing)
    assert sum(take_each_away(users, role).changed for role in ("append", "consume")) > 10


def test_a_right_that_is_granted_later_is_found(users: Users) -> None:
    rules = rules_of("append")
    replicas: Any = {"wait_replicas": 1, "wait_timeout": 0.01}
    with Sequencer(QUEUE, users.make("u", [*rules, "-zadd"]), namespace=NAMESPACE, **replicas) as seq:
        for lacking, granted in (("+zadd", rules), ("+wait", [*rules, "+wait"])):
            with refused(ServerNotUsable, "rights_missing") as caught:
                seq.append(1, group="g")
            assert lacking in caught.value.fields["rights"]
            assert users.state() == {}
            users.make("u", granted)
        with pytest.raises(NotReplicated):
            seq.append(1, group="g")


# -- the whole job ----------------------------------------------------------------------------------------------------


def append(seq: Sequencer, other: Sequencer) -> None:
    seq.append_many({"body": n, "group": f"g{n % 3}", "id": str(n), "score": n} for n in range(30))
    seq.append(1, group="g0", id="later", delay=60)
    seq.append(2, group="g0", id="later", delay=0.001, replace=True)
    assert seq.append(0, group="g0", id="0", score=0).duplicate
    assert other.consume(lambda message: None, until_empty=True).handled == 31


def consume(seq: Sequencer, other: Sequencer) -> None:
    other.append_many({"body": n, "group": f"g{n % 5}", "id": str(n), "score": n} for n in range(50))

    def handle(message: Message) -> None:
        if message.id == "13":
            raise SetAside("a dead letter")
        if message.id == "14":
            raise Park("a parked group")

    assert seq.consume(handle, until_empty=True).handled == 41
    info = seq.info()
    assert (info.parked, info.dead, info.backlog) == (1, 1, 8)


def operate(seq: Sequencer, other: Sequencer) -> None:
    consume(other, other)
    seq.pause("g1")
    seq.unpause("g1")
    seq.skip("g4")
    seq.redrive(everything=True)
    assert other.consume(lambda message: None, until_empty=True).handled == 8
    other.append(1, group="g", id="a", delay=60)
    seq.reschedule("g", "a", delay=30)
    seq.cancel("g", "a")


def administer(seq: Sequencer, other: Sequencer) -> None:
    consume(seq, other)
    assert is_healthy(diagnose(seq.endpoint, NAMESPACE, repair=True))


JOBS: dict[Role, Callable[[Sequencer, Sequencer], None]] = {
    "append": append,
    "consume": consume,
    "operate": operate,
    "admin": administer,
}


@pytest.mark.parametrize("role", ROLES)
def test_a_role_does_its_whole_job_with_the_least_rights(users: Users, role: Role) -> None:
    with queue(users.make("least", rules_of(role))) as seq, queue(users.host.url) as other:
        JOBS[role](seq, other)


def test_a_role_that_lacks_a_right_can_not_do_its_job(users: Users) -> None:
    url = users.make("short", [rule for rule in rules_of("append") if rule != "+zadd"])
    with (
        queue(url) as seq,
        queue(users.host.url) as other,
        refused(ServerNotUsable, "rights_missing", rights=["+zadd"]),
    ):
        append(seq, other)


def test_the_lists_hold_what_the_scripts_use() -> None:
    assert needed("append") | needed("consume") < needed("admin")
    assert commands_of("append") < needed("append")
    assert commands_of("ack") | commands_of("nack") | commands_of("renew") < needed("consume")
    assert not {"KEYS", "CONFIG", "FLUSHALL", "SCRIPT", "ACL"} & needed("admin")
