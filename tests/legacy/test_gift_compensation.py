"""003: ten methods of a gift, auto or manual, each with its own outcome; attempts, what is kept, and a new run."""

from __future__ import annotations

import shutil
from collections import Counter
from typing import Any

import pytest

from sequencer import EmbeddedServer, Sequencer
from sequencer.errors import AnswerNeeded
from sequencer.testing import wait_until

from ..process.conftest import Cli
from ..support.handling import got
from ..support.hook_server import hook_server
from ..support.run_scene import PATIENCE_S
from .conftest import HERE, Load, is_signed

pytestmark = pytest.mark.nightly


METHODS = ("debit", "income", "points", "level", "ranking", "badge", "statistics", "notice", "invoice", "text_message")


class Shop:
    """The example, with services of which some fail; `calls` counts what was called, as (gift, method)."""

    def __init__(self, module: Any) -> None:
        self.seq: Sequencer = module.seq
        self.module = module
        self.calls: Counter[tuple[str, str]] = Counter()
        self.broken: dict[str, Any] = {}
        """Method -> what its service answers, or raises."""
        module.call_service = self._call

    def _call(self, name: str, id: str, params: dict[str, Any]) -> Any:
        self.calls[id, name] += 1
        answer = self.broken.get(name, True)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def run(self) -> None:
        self.seq.consume(until_empty=True)

    def called(self, id: str = "g1") -> dict[str, int]:
        return {name: self.calls[id, name] for name in METHODS}

    def states(self, id: str = "g1", group: str = "") -> dict[str, str]:
        seen = self.seq.steps(group or id, id)
        assert seen is not None
        return {step.name: step.state for step in seen.steps}


ONCE_EACH = dict.fromkeys(METHODS, 1)


@pytest.fixture
def shop(load: Load) -> Shop:
    return Shop(load("gift_compensation", backoff=0.01))


def test_a_failed_method_stops_no_other_and_what_is_done_is_never_repeated(shop: Shop) -> None:
    shop.broken = {"points": ValueError("the club is closed"), "ranking": False}
    shop.module.create_queue("g1", {})
    shop.run()
    assert shop.called() == ONCE_EACH | {"points": 3, "ranking": 3}
    assert shop.states() == dict.fromkeys(METHODS, "done") | {"points": "failed", "ranking": "failed"}
    gift = got(shop.seq, "g1", "g1")
    assert (gift.status, gift.state) == ("error", "parked")
    assert gift.error is not None
    assert (gift.error.type, gift.error.message) == ("NotTrue", "returned False")


def test_a_new_run_after_a_repair_leaves_done_methods_done(shop: Shop) -> None:
    shop.broken = {"points": ValueError("closed")}
    shop.module.create_queue("g1", {})
    shop.run()
    assert shop.module.run_again("g1")
    shop.run()
    assert shop.called() == ONCE_EACH | {"points": 6}, "three attempts anew"
    shop.broken = {}
    assert shop.module.run_again("g1")
    shop.run()
    assert shop.called() == ONCE_EACH | {"points": 7}
    assert shop.seq.find("g1")[0].status == "finished"


def test_a_manual_method_that_failed_is_left_out_of_later_passes_and_then_asked_about(shop: Shop) -> None:
    shop.broken = {"debit": ValueError("no answer"), "points": ValueError("closed")}
    shop.module.create_queue("g1", {})
    shop.run()
    assert shop.called() == ONCE_EACH | {"points": 3}
    assert shop.seq.explain("g1").reason == "unresolved step"
    seen = shop.seq.steps("g1")
    assert seen is not None
    assert seen.questions == ("debit",)
    with pytest.raises(AnswerNeeded):
        shop.module.run_again("g1")
    shop.broken = {}
    shop.module.run_again("g1", done={"debit": True})
    shop.run()
    assert shop.called() == ONCE_EACH | {"points": 4}
    assert shop.seq.find("g1")[0].status == "finished"


def test_gifts_of_a_couple_in_order_are_set_aside_and_redriven(load: Load) -> None:
    """Group by couple, and both endings "dead_letter": else one failed text message stops a couple's later gifts."""
    aside = {"on_failure": "dead_letter", "on_unresolved": "dead_letter"}
    shop = Shop(load("gift_compensation", backoff=0.01, group_by=("params.couple",), **aside))
    for id, broken in (("g1", "points"), ("g2", "text_message"), ("g3", "")):
        shop.broken = {broken: ValueError("closed")}
        shop.module.create_queue(id, {"couple": "ann and bob"})
        shop.run()
    assert [shop.seq.find(id)[0].state for id in ("g1", "g2", "g3")] == ["dead", "dead", "finished"]
    shop.broken = {}
    assert shop.seq.redrive(id="g1").redriven == 1
    assert shop.seq.redrive(id="g2", done={"text_message": True}).redriven == 1
    shop.run()
    assert shop.called("g1") == ONCE_EACH | {"points": 4}
    assert shop.called("g2") == ONCE_EACH
    assert [shop.seq.find(id)[0].state for id in ("g1", "g2")] == ["finished", "finished"]


def test_successes_are_deleted_after_the_window_and_failures_are_kept(load: Load) -> None:
    shop = Shop(load("gift_compensation", backoff=0.01, history_window=0.2, dedup_window=0.0))
    shop.module.create_queue("g1", {})
    shop.run()
    shop.broken = {"points": ValueError("closed")}
    shop.module.create_queue("g2", {})
    shop.run()
    wait_until(lambda: shop.seq.sweep().history or not shop.seq.find("g1"), what="three days later, so to say")
    assert shop.seq.find("g1") == []
    assert shop.states("g2")["debit"] == "done"
    assert shop.states("g2")["points"] == "failed"
    assert load("gift_compensation").seq.policy.history_window == 3 * 86_400


BROKEN = """

calls_fine = call_service


def call_service(name, id, params):
    if name == "points" and pathlib.Path("broken").exists():
        raise ValueError("the club is closed")
    return calls_fine(name, id, params)
"""


@pytest.mark.slow
def test_a_gift_that_failed_for_good_is_told_in_feishu_and_that_it_is_done(
    cli: Cli, own_server: EmbeddedServer
) -> None:
    """The legacy marked it as told and then told it: it lost its only alert if it died in between."""
    source = (HERE / "gift_compensation.py").read_text().replace("import functools", "import functools\nimport pathlib")
    (cli.directory / "gift_compensation.py").write_text(source + BROKEN)
    shutil.copy(HERE / "gifts.toml", cli.directory)
    (cli.directory / "broken").touch()
    with hook_server("lie") as feishu, Sequencer("gifts", own_server.url) as gifts:
        own = {"SEQUENCER_REDIS": own_server.url, "SEQUENCER_NAMESPACE": "sequencer"}
        hook = {"FEISHU_URL": feishu.url(), "FEISHU_SECRET": "s3cret", "SEQUENCER_HOME": str(own_server.directory)}
        running = cli.start("run", "gifts.toml", **own, **hook)
        gifts.append({"gift": "g1", "params": {}}, group="g1", id="g1")
        wait_until(lambda: feishu.requests, PATIENCE_S, "Feishu is asked, and refuses by code 19021")
        feishu.mode = "ok"
        wait_until(lambda: [one.notified[0].messages for one in gifts.alerts()] == [1], PATIENCE_S, "it took it")
        assert len(feishu.requests) >= 2
        (cli.directory / "broken").unlink()
        assert gifts.resume("g1")
        wait_until(lambda: "resolved" in feishu.requests[-1].json()["content"]["text"], PATIENCE_S, "it is done")
        running.stop()
    texts = [one.json()["content"]["text"] for one in feishu.requests]
    assert all(is_signed(one.json(), "s3cret") for one in feishu.requests)
    assert all(word in texts[0] for word in ("production", "gifts", "id g1", "the club is closed", "sequencer resume"))
    assert "s3cret" not in running.stderr + "".join(texts)
