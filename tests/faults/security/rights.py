"""Least rights: a user who has them can do the whole job, and one who lacks any of them is told which before it begins.

Redis looks at rights command by command, also inside a script, and undoes nothing. So a missing right must show before
the first message is appended or handled, and no key may have changed until then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from sequencer.client import Sequencer
from sequencer.doctor.diagnose import diagnose, is_healthy
from sequencer.doctor.rights import ROLES as ALL_ROLES
from sequencer.doctor.rights import WISHED, acl_rules
from sequencer.errors import Park, ServerError, ServerNotUsable, SetAside
from sequencer.net.endpoint import Endpoint
from sequencer.net.link import Link
from sequencer.values.message import Message

from .server import OwnServer, own_server

NAMESPACE, QUEUE = "rights", "jobs"
ROLES: tuple[str, ...] = ALL_ROLES


@dataclass
class Trials:
    """What was tried and what was wrong."""

    rights: int = 0
    named: int = 0
    """Missing rights that were named before anything was done."""
    changed: int = 0
    """Cases in which something had been written, or handled, when the right was found missing."""
    jobs: int = 0
    problems: list[str] = field(default_factory=list)


class Users:
    """Users of a server, made and used one after the other."""

    def __init__(self, own: OwnServer) -> None:
        self.own = own
        self.admin = Link(Endpoint.from_url(own.url()))

    def make(self, name: str, rules: list[str]) -> str:
        """The URL of a user with exactly these rights."""
        self.admin.command("ACL", "SETUSER", name, "reset", "on", ">word", "resetchannels", *rules)
        return self.own.url(name, "word")

    def state(self) -> dict[bytes, bytes]:
        """Everything on the server, to compare."""
        keys = sorted(self.admin.command("KEYS", "*"))
        return dict(zip(keys, self.admin.commands([("DUMP", key) for key in keys]), strict=True)) if keys else {}

    def clean(self) -> None:
        keys = self.admin.command("KEYS", "*")
        if keys:
            self.admin.command("DEL", *keys)


def queue(url: str) -> Sequencer:
    return Sequencer(QUEUE, url, namespace=NAMESPACE, max_attempts=1, backoff=0.01)


def lacking_one(role: str) -> Iterator[tuple[str, list[str]]]:
    """Each right that a role needs, and the rules without it. A pattern that allows reading only lacks that to write.

    What it goes on without is left out: tests/server/test_no_consumers.py.
    """
    rules = acl_rules(NAMESPACE, role)
    wished = [f"+{name.lower()}" for name in WISHED.get(role, [])]  # type: ignore[call-overload]
    for right in rules:
        if right not in wished:
            yield right, [rule for rule in rules if rule != right]
    pattern = rules[0]
    yield pattern, [f"~{{{NAMESPACE}:other:*", *rules[1:]]
    yield pattern, [f"%R{pattern}", *rules[1:]]


def prove_rights(roles: tuple[str, ...] = ROLES) -> Trials:
    """Take each right of each role away once, and see what the user is told and what was written."""
    tried = Trials()
    with own_server() as own:
        users = Users(own)
        try:
            for role in roles:
                _prove_job(users, role, tried)
                for right, rules in lacking_one(role):
                    tried.rights += 1
                    _prove_lack(users, role, right, users.make(f"no{tried.rights}", rules), tried)
        finally:
            users.admin.close()
    return tried


def _prove_lack(users: Users, role: str, right: str, url: str, tried: Trials) -> None:
    users.clean()
    if role != "append":
        with queue(users.own.url()) as seq:
            seq.append(1, group="g", id="a")
            if role == "operate":
                seq.consume(_park, until_empty=True)
    before = users.state()
    said, done = _try_role(role, url)
    # A pattern is named for the queue in question, not for the namespace: that is all it takes.
    wanted = f"~{{{NAMESPACE}:{QUEUE}:*" if right.startswith("~{") else right
    where = f"to {role}, without {right}"
    problems = []
    words = said.replace(";", " ").split()
    # A mere look, with which operating begins, says what patterns look like; the checks before writing name them.
    is_hinted = role == "operate" and right.startswith("~") and "~NAMESPACE:queues" in words
    if not (wanted in words or f"'{right[1:]}'" in words or is_hinted):
        problems.append(f"{where}: the right is not named in {said!r}")
    if done or (role != "admin" and users.state() != before):
        tried.changed += 1
        problems.append(f"{where}: {done or 'keys had changed'} before the error")
    tried.named += not problems
    tried.problems += [f"{text}; repeat: python -m tests.faults security --only rights" for text in problems]


def _try_role(role: str, url: str) -> tuple[str, str]:
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
    except ServerError as error:
        return f"{type(error).__name__} instead of ServerNotUsable: {error}", ""


def _park(message: Message) -> None:
    raise Park("it waits for a person")


def _prove_job(users: Users, role: str, tried: Trials) -> None:
    """The whole of a role's job, as a user who has its rights and no other."""
    users.clean()
    url = users.make(f"all-{role}", acl_rules(NAMESPACE, role))
    jobs: dict[str, Callable[[Sequencer, Sequencer], str]] = {
        "append": _append,
        "consume": _consume,
        "operate": _operate,
        "admin": _administer,
    }
    try:
        with queue(url) as seq, queue(users.own.url()) as other:
            wrong = jobs[role](seq, other)
    except ServerError as error:
        wrong = str(error)
    tried.jobs += 1
    if wrong:
        tried.problems.append(f"to {role}, with all its rights: {wrong}; python -m tests.faults security --only rights")


def _append(seq: Sequencer, other: Sequencer) -> str:
    seq.append_many({"body": n, "group": f"g{n % 3}", "id": str(n), "score": n} for n in range(30))
    seq.append(1, group="g0", id="later", delay=60)
    seq.append(2, group="g0", id="later", delay=0.001, replace=True)
    if not seq.append(0, group="g0", id="0", score=0).duplicate:
        return "a repeated append was no duplicate"
    count = other.consume(lambda message: None, until_empty=True).handled
    return "" if count == 31 else f"{count} of 31 messages arrived"


def _consume(seq: Sequencer, other: Sequencer) -> str:
    other.append_many({"body": n, "group": f"g{n % 5}", "id": str(n), "score": n} for n in range(50))

    def handle(message: Message) -> None:
        if message.id == "13":
            raise SetAside("a dead letter")
        if message.id == "14":
            raise Park("a parked group")

    handled = seq.consume(handle, until_empty=True, audit=True).handled
    info = seq.info()
    found = (handled, info.parked, info.dead, info.backlog)
    return "" if found == (41, 1, 1, 8) else f"handled, parked, dead, backlog are {found}, not (41, 1, 1, 8)"


def _operate(seq: Sequencer, other: Sequencer) -> str:
    wrong = _consume(other, other)
    seq.pause("g1")
    seq.unpause("g1")
    seq.skip("g4")
    redriven = seq.redrive(everything=True)
    left = other.consume(lambda message: None, until_empty=True).handled
    other.append(1, group="g", id="a", delay=60)
    seq.reschedule("g", "a", delay=30)
    seq.cancel("g", "a")
    return wrong or ("" if left == 8 else f"{left} messages were left to handle, not 8, after {redriven}")


def _administer(seq: Sequencer, other: Sequencer) -> str:
    wrong = _consume(seq, other)
    if wrong:
        return wrong
    if not seq.audit().is_clean:
        return "audit found something"
    found = diagnose(seq.endpoint, NAMESPACE, repair=True)
    return "" if is_healthy(found) else f"doctor: {[one.text for one in found if one.level == 'problem']}"
