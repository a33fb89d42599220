"""002: several types, each with n processes under a master; rows by business key and by id; the life of a child."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from sequencer import EmbeddedServer, Message, Sequencer
from sequencer.testing import wait_until

from ..support.hook_server import hook_server
from .conftest import HERE, Load, is_signed

if TYPE_CHECKING:
    from ..process.conftest import Cli, Running

Said = pytest.CaptureFixture[str]
pytestmark = pytest.mark.nightly

PATIENCE_S = 30.0


@pytest.fixture
def work(load: Load) -> Any:
    return load("workers", missing_wait=0.0, backoff=0.2, max_attempts=2)


def drain(work: Any) -> None:
    for queue in work.QUEUES.values():
        queue.consume(until_empty=True)


def test_the_callback_of_a_row_says_which_function_does_it(work: Any, capsys: Said) -> None:
    work.add(work.MAIL, "order-7", "send_mail", {"to": "ann"})
    work.add(work.MAIL, "order-7", "send_receipt", {"number": 70})
    work.add(work.REPORT, "shop-1", "month", {"month": "May"})
    drain(work)
    assert capsys.readouterr().out.splitlines() == ["mail to ann", "receipt 70", "report of May"]


def test_rows_are_found_by_their_business_key_and_by_their_id(work: Any) -> None:
    first = work.add(work.MAIL, "order-7", "send_mail", {"to": "ann"}, mark="by hand")
    work.add(work.MAIL, "order-8", "send_mail", {"to": "bob"})
    assert work.mails.peek(["order-7"])[0].headers == {"mark": "by hand"}
    drain(work)
    second = work.add(work.MAIL, "order-7", "send_receipt", {"number": 70})
    assert work.by_key(work.MAIL, "order-7") == [second, first]
    (row,) = work.by_id(first)
    assert (row.group, row.kind, row.status) == (("order-7",), "send_mail", "finished")
    assert row.consumer.split(":")[1] == str(os.getpid())


def test_a_row_passes_through_the_states_of_the_legacy(work: Any) -> None:
    """0 new, 1 running, 4 to retry, 3 failed; 2 done is above."""
    seen = []

    def burn(message: Message) -> None:
        seen.append(work.by_id(id)[0].status)
        raise ValueError("no paper")

    work.reports.step("burn")(burn)
    id = work.add(work.REPORT, "shop-1", "burn", {})
    assert work.by_id(id)[0].status == "pending"
    work.reports.consume(max_messages=1)
    (row,) = work.by_id(id)
    assert (row.status, row.state, row.error.attempt, row.error.message) == ("pending", "waiting", 1, "no paper")
    drain(work)
    (row,) = work.by_id(id)
    assert (row.status, row.state, row.error.attempt) == ("error", "parked", 2)
    assert seen == ["running", "running"]


def test_nothing_begins_before_its_preexec_time(work: Any) -> None:
    at = datetime.now(UTC) + timedelta(seconds=0.3)
    id = work.add(work.MAIL, "order-7", "send_mail", {"to": "ann"}, preexec_time=at)
    work.add(work.MAIL, "order-7", "send_mail", {"to": "ann"})
    drain(work)
    assert work.by_id(id)[0].began_at >= at.timestamp() - 0.01
    assert work.by_key(work.MAIL, "order-7")[0] == id, "the one that was due went before it"


def test_the_masters_look_tells_of_a_backlog(work: Any) -> None:
    seen = work.mails.snapshot()
    assert work.look(seen) is None
    assert work.look(replace(seen, due=1001)) == "1001 business keys wait"


@pytest.mark.slow
def test_a_master_keeps_so_many_processes_of_each_type_and_replaces_old_and_dead_ones(
    cli: Cli, own_server: EmbeddedServer
) -> None:
    """With overTime=0 the legacy restarted no single child until all had ended."""
    shutil.copy(HERE / "workers.py", cli.directory)
    text = (HERE / "sequencer.toml").read_text()
    assert text.count('max_age = "1h"') == 2
    (cli.directory / "sequencer.toml").write_text(text.replace('max_age = "1h"', 'max_age = "1s"', 1))
    own = {"SEQUENCER_REDIS": own_server.url, "SEQUENCER_NAMESPACE": "sequencer"}
    hook = {"FEISHU_URL": "http://127.0.0.1:9/", "FEISHU_SECRET": "s3cret"}
    cli.environment |= {**own, **hook, "SEQUENCER_HOME": str(own_server.directory)}
    running = cli.start("run")
    with Sequencer("mails", own_server.url) as mails, Sequencer("reports", own_server.url) as reports:
        wait_until(lambda: len(running.consumers()) == 3, PATIENCE_S, "two of mails, one of reports")
        first = done_by(running, mails, "send_mail", {"to": "ann"})
        report = done_by(running, reports, "month", {"month": "May"})
        assert first != report
        os.kill(report, signal.SIGKILL)
        running.wait_for("consumer died")
        assert done_by(running, reports, "month", {"month": "June"}) != report
        wait_until(lambda: first not in running.consumers(), PATIENCE_S, "it was too old")
        wait_until(lambda: len(running.consumers()) == 3, PATIENCE_S, "another stands in its place")
        assert done_by(running, mails, "send_mail", {"to": "bob"}) != first
    running.signal()
    assert running.ended() == 0
    assert sorted(running.stdout.splitlines()) == ["mail to ann", "mail to bob", "report of June", "report of May"]


def test_a_backlog_is_told_in_feishu(cli: Cli, make: Callable[..., Sequencer]) -> None:
    shutil.copy(HERE / "workers.py", cli.directory)
    text = (HERE / "sequencer.toml").read_text()
    assert text.count("backlog = 1000") == 1
    (cli.directory / "sequencer.toml").write_text(text.replace("backlog = 1000", "backlog = 3"))
    mails = make("mails")
    mails.pause()
    mails.append_many({"body": {}, "group": [f"order-{number}"]} for number in range(3))
    with hook_server() as feishu:
        hook = {"FEISHU_URL": feishu.url(), "FEISHU_SECRET": "s3cret"}
        assert cli.call("watch", "--once", **hook).returncode == 6
    (said,) = [one.json() for one in feishu.requests if "mails: backlog" in one.json()["content"]["text"]]
    assert is_signed(said, "s3cret")
    assert "3 messages wait" in said["content"]["text"]


def done_by(running: Running, queue: Sequencer, callback: str, content: dict[str, str]) -> int:
    """Let a piece of work be done; the process that did it, as its row tells."""
    p_key = f"key of {content}"
    id = queue.append({"p_key": p_key, "callback": callback, "param_content": content}, group=p_key).id
    wait_until(lambda: queue.find(id)[0].status == "finished", PATIENCE_S, f"{content} is done\n{running.stderr}")
    return int(queue.find(id)[0].consumer.split(":")[1])
