"""Least rights, TLS and canaries: the part passes, and each of its checkers turns red on a negative control."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import sequencer.queue.session
from sequencer import Sequencer
from sequencer.doctor.rights import acl_rules, commands_of, needed
from sequencer.errors import NotReplicated, ServerNotUsable

from .security import fault_test as security
from .security import rights as security_rights
from .security import tls as security_tls
from .security.rights import Users, prove_rights
from .security.search import Search, logs
from .security.server import own_server
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
    assert "+zadd" in prove_rights(("append",)).problems[0]


def test_the_lists_hold_what_the_scripts_use() -> None:
    assert needed("append") | needed("consume") < needed("admin")
    assert commands_of("append") < needed("append")
    assert commands_of("ack") | commands_of("nack") | commands_of("renew") < needed("consume")
    assert not {"KEYS", "CONFIG", "FLUSHALL", "SCRIPT", "ACL"} & needed("admin")


def test_a_right_that_is_granted_later_is_found(users: Users) -> None:
    rules = acl_rules("rights", "append")
    replicas: Any = {"wait_replicas": 1, "wait_timeout": 0.01}
    with Sequencer("jobs", users.make("u", [*rules, "-zadd"]), namespace="rights", **replicas) as seq:
        for lacking, granted in ((r"\+zadd", rules), (r"\+wait", [*rules, "+wait"])):
            with pytest.raises(ServerNotUsable, match=lacking):
                seq.append(1, group="g")
            assert users.state() == {}
            users.make("u", granted)
        with pytest.raises(NotReplicated):
            seq.append(1, group="g")


# -- TLS ---------------------------------------------------------------------------------------------------------


def test_tls_with_certificates() -> None:
    result = security.run("smoke", only="tls")
    if "skipped parts" in result.figures:
        pytest.skip(result.figures["skipped parts"])
    assert result.problems == []
    assert result.runs == 8


def test_a_server_that_should_be_refused_and_is_not_is_caught(users: Users) -> None:
    tls = Tls()
    security_tls._refused(tls, "a wrong certificate", users.own.url(), ServerNotUsable, "certificate")
    assert "a wrong certificate: it was accepted" in tls.problems[0]


# -- canaries ----------------------------------------------------------------------------------------------------


@pytest.mark.timeout(300)
def test_nothing_shows_a_secret() -> None:
    result = security.run("smoke", only="canary")
    assert result.problems == []


def _log(search: Search, _: Path) -> None:
    with logs() as lines:
        logging.getLogger("sequencer").debug("connecting to %s", f"redis://:{search.password}@host")
    search.look("logs", "\n".join(lines))


def _print(search: Search, directory: Path) -> None:
    program = (sys.executable, "-c", "import os, sys; print(os.environ['SEQUENCER_REDIS'], file=sys.stderr)")
    search.command(("info",), directory, program=program, SEQUENCER_REDIS=search.password)


@pytest.mark.parametrize("control", [_log, _print])
def test_what_shows_a_canary_is_caught(control: Callable[[Search, Path], None], tmp_path: Path) -> None:
    search = Search()
    control(search, tmp_path)
    assert "shows the password" in search.problems[0]
    assert search.password not in "".join(search.problems), "the report does not show it either"
