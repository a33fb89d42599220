"""Least rights, TLS and canaries: the fault_test passes, and each of its checkers turns red on a negative control."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import sequencer.queue.session
from sequencer import Sequencer
from sequencer.doctor.rights import acl_rules, commands_of, missing_rights, needed
from sequencer.errors import NotReplicated, ServerNotUsable
from sequencer.net.blocking import BlockingNet, finish
from sequencer.server import start_embedded
from sequencer.store.keys import shard_keys

from .security import fault_test as security
from .security import rights as security_rights
from .security import tls as security_tls
from .security.canary import in_process
from .security.commands import processes
from .security.rights import ROLES, Users, prove_rights
from .security.search import Search, logs
from .security.server import OwnServer, own_server
from .security.tls import Tls

pytestmark = pytest.mark.nightly


@pytest.fixture
def users() -> Iterator[Users]:
    with own_server() as own:
        users = Users(own)
        yield users
        users.admin.close()


# -- rights ------------------------------------------------------------------------------------------------------


def test_each_missing_right_is_named_before_anything_is_done() -> None:
    result = security.run("smoke", only="rights")
    assert result.problems == []
    assert result.faults["rights taken away"] > 180
    assert result.figures["roles that do their whole job with the least rights"] == 4


def test_without_the_check_rights_are_missed_and_groups_half_written(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(_net: Any, roles: Any, *_: Any, **__: Any) -> dict[Any, list[str]]:
        return {role: [] for role in roles}

    monkeypatch.setattr(sequencer.queue.session, "missing_rights", nothing)
    tried = prove_rights(("append", "consume"))
    assert tried.named < tried.rights
    assert tried.changed > 10, "what the check is for"


def test_a_role_without_one_of_its_rights_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def short(namespace: str, role: Any, queue: str | None = None) -> list[str]:
        return [rule for rule in acl_rules(namespace, role, queue) if rule != "+zadd"]

    monkeypatch.setattr(security_rights, "acl_rules", short)
    tried = prove_rights(("append",))
    assert "with all its rights" in tried.problems[0]
    assert "+zadd" in tried.problems[0]


def test_the_lists_hold_what_the_scripts_use_and_no_more_than_commands() -> None:
    assert needed("append") | needed("consume") < needed("admin")
    assert commands_of("append") < needed("append")
    assert needed("operate") < needed("admin")
    assert commands_of("ack") | commands_of("nack") | commands_of("renew") < needed("consume")
    assert "BLPOP" not in needed("append")
    assert not {"KEYS", "CONFIG", "FLUSHALL", "SCRIPT", "ACL"} & needed("admin")
    for role in ROLES:
        words = acl_rules("shop", role, "jobs")
        assert words[:2] == ["~{shop:jobs:*", "~shop:queues"]
        assert all(word.startswith("+") and "@" not in word for word in words[2:])


@pytest.mark.parametrize("lacks", [(), ("+multi",), ("+discard",), ("+zadd", "+eval")])
def test_asking_writes_nothing_and_leaves_the_connection_usable(users: Users, lacks: tuple[str, ...]) -> None:
    keys = shard_keys("rights", "jobs", 0)
    with Sequencer("jobs", users.own.url(), namespace="rights") as seq:
        seq.append(1, group="g")
    before = users.state()
    rules = [rule for rule in acl_rules("rights", "consume") if rule not in lacks]
    net = BlockingNet(users.make("u", rules), start_embedded)
    try:
        found = finish(missing_rights(net, ("append", "consume"), "rights", "jobs", [keys]))
        with net.link() as link:
            assert link.command("ZCARD", keys.schedule) == 1
    finally:
        net.close()
    assert set(found["consume"]) == set(lacks)
    assert users.state() == before


def test_a_right_that_is_granted_later_is_found(users: Users) -> None:
    rules = acl_rules("rights", "append")
    with Sequencer("jobs", users.make("u", [*rules, "-zadd"]), namespace="rights") as seq:
        with pytest.raises(ServerNotUsable, match=r"to append to this queue, the user lacks \+zadd; grant it with ACL"):
            seq.append(1, group="g")
        assert users.state() == {}
        users.make("u", rules)
        assert not seq.append(1, group="g").duplicate
        with pytest.raises(ServerNotUsable, match=r"to consume this queue, the user lacks \+blpop "):
            seq.consume(print)


def test_waiting_for_replicas_takes_a_right_more(users: Users) -> None:
    rules = acl_rules("rights", "append")
    with Sequencer("jobs", users.make("u", rules), namespace="rights", wait_replicas=1, wait_timeout=0.01) as seq:
        with pytest.raises(ServerNotUsable, match=r"lacks \+wait;"):
            seq.append(1, group="g")
        assert users.state() == {}
        users.make("u", [*rules, "+wait"])
        with pytest.raises(NotReplicated):
            seq.append(1, group="g")


# -- TLS ---------------------------------------------------------------------------------------------------------


def test_tls_with_certificates() -> None:
    result = security.run("smoke", only="tls")
    if "skipped parts" in result.figures:
        pytest.skip(result.figures["skipped parts"])
    assert result.problems == []
    assert result.runs == 9


def test_tls_that_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security_tls, "tls_binary", lambda _: None)
    result = security.run("smoke", only="tls")
    assert "no server here speaks TLS; install" in result.figures["skipped parts"]


def test_a_server_that_should_be_refused_and_is_not_is_caught(users: Users) -> None:
    tls = Tls()
    security_tls._refused(tls, "a wrong certificate", users.own.url(), ServerNotUsable, "certificate")
    assert tls.problems == ["a wrong certificate: it was accepted; repeat: " + security_tls.REPEAT]
    security_tls._refused(tls, "a wrong reason", "redis://127.0.0.1:1", ServerNotUsable, "certificate")
    assert "ServerUnavailable after" in tls.problems[1]


# -- canaries ----------------------------------------------------------------------------------------------------


@pytest.fixture
def guarded() -> Iterator[tuple[Search, OwnServer, str]]:
    search = Search()
    with own_server((f"requirepass {search.password}",), port_option="port") as own:
        yield search, own, f"redis://:{search.password}@127.0.0.1:{own.port}"


def test_errors_logs_and_objects_show_neither(guarded: tuple[Search, OwnServer, str]) -> None:
    search, _, url = guarded
    with logs() as lines:
        in_process(search, url)
    search.look("logs", "\n".join(lines))
    assert search.problems == []
    assert search.places > 40


def test_command_lines_show_neither(guarded: tuple[Search, OwnServer, str]) -> None:
    search, own, url = guarded
    processes(search, own.directory, url)
    assert search.problems == []
    assert search.places >= 5, "supervisor, two consumers, a command, standard error"


def _log(search: Search, _: Path) -> None:
    with logs() as lines:
        logging.getLogger("sequencer").debug("connecting to %s", f"redis://:{search.password}@host")
    search.look("logs", "\n".join(lines))


def _cause(search: Search, _: Path) -> None:
    try:
        try:
            raise ValueError(search.payload)
        except ValueError as error:
            raise ServerNotUsable("the text is clean") from error
    except ServerNotUsable as error:
        search.look_at_error("an error", error)


def _print(search: Search, directory: Path) -> None:
    program = (sys.executable, "-c", "import os, sys; print(os.environ['SEQUENCER_REDIS'], file=sys.stderr)")
    search.command(("info",), directory, program=program, SEQUENCER_REDIS=search.password)


def _show(search: Search, directory: Path) -> None:
    program = (sys.executable, "-c", "import sys; print(sys.stdin.read())")
    search.command(("info",), directory, search.payload, program=program)


@pytest.mark.parametrize(
    ("control", "said"),
    [
        (_log, "logs shows the password"),
        (_cause, "an error shows the payload"),
        (_print, "standard error of info shows the password"),
        (_show, "standard output of info shows the payload"),
    ],
)
def test_what_shows_a_canary_is_caught(control: Callable[[Search, Path], None], said: str, tmp_path: Path) -> None:
    search = Search()
    control(search, tmp_path)
    assert said in search.problems[0]
    assert search.password not in "".join(search.problems), "the report does not show it either"


def test_a_command_that_does_not_do_its_work_is_caught(tmp_path: Path) -> None:
    search = Search()
    search.command(("info",), tmp_path, program=(sys.executable, "-c", "raise SystemExit(3)"))
    search.command(("peek",), tmp_path, shows_payload=True, program=(sys.executable, "-c", "print('nothing')"))
    assert len(search.problems) == 2


def test_another_part_is_wrong_use() -> None:
    with pytest.raises(ValueError, match="rights, tls, canary"):
        security.run("smoke", only="rigths")
