"""Chaos with real processes: a short run passes with every fault in effect, and broken promises turn it red."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from sequencer import EmbeddedServer, Sequencer
from sequencer.net.link import Link
from sequencer.store.keys import shard_keys
from sequencer.testing import Event, Recorder, judge, wait_until
from sequencer.testing.proxy.fault import KINDS
from sequencer.testing.proxy.fault_proxy import FaultProxy
from sequencer.testing.proxy.frames import ERRORS

from .chaos import fault_test as chaos
from .chaos.children import Child, Paused
from .chaos.nemesis import EXPECTED, FIRST_ACTS, VICTIMS, Act, acts, again
from .chaos.operator import broken
from .chaos.run import run_seed
from .strays import strays

pytestmark = pytest.mark.nightly

FEW = ("producer", "consumers")
"""Enough processes to see a broken promise."""
KILLS = [Act("kill", "consumers", which) for which in range(3)]


def test_a_short_run_holds_every_promise_under_every_fault() -> None:
    result = chaos.run("smoke", seed=1)
    assert result.problems == []
    assert result.is_passed
    assert (result.losses, result.order_violations) == (0, 0)
    assert result.messages > 200
    assert set(EXPECTED) <= set(result.faults)
    assert all(count > 0 for count in result.faults.values())
    assert len(result.recovery_s) == result.runs == 1


def test_a_producer_that_trusts_an_unknown_outcome_loses_messages_and_a_fault_that_never_was_is_said() -> None:
    plan = [Act("proxy", order={"add": "request reset", "on": ["append"], "times": 60})]
    outcome = run_seed(1, 1.0, mutant="trusting", plan=plan, expected=["request reset", "error MISCONF"], roles=FEW)
    assert outcome.judgement.losses > 0
    assert any("was stored, and never handled" in problem for problem in outcome.problems)
    assert outcome.judgement.missing == ["error MISCONF"]
    assert "fault that never took effect: error MISCONF" in outcome.problems


def test_a_consumer_that_acknowledges_before_it_handles_loses_messages() -> None:
    outcome = run_seed(2, 1.0, mutant="early ack", plan=KILLS, expected=(), roles=FEW)
    assert outcome.judgement.losses > 0


def test_a_consumer_that_does_not_keep_its_lease_works_beside_another() -> None:
    outcome = run_seed(3, 2.0, mutant="no renewal", plan=[], expected=(), roles=FEW)
    assert outcome.judgement.overlaps > 0
    assert any(problem.startswith("overlap") for problem in outcome.problems)


def test_a_seed_says_what_is_done_and_first_everything_once() -> None:
    plans = [list(itertools.islice(acts(seed, 1.0), 200)) for seed in (1, 1, 2)]
    assert plans[0] == plans[1]
    assert plans[0] != plans[2]
    first = plans[0][:FIRST_ACTS]
    assert {act.order["add"] for act in first if act.order} == set(KINDS)
    assert {(act.deed, act.whom) for act in first if act.deed != "proxy"} == {
        *[(deed, whom) for deed in ("kill", "pause") for whom in VICTIMS],
        ("flush scripts", ""),
        ("kill supervisor", ""),
    }


def test_what_the_proxy_answers_in_place_of_the_server_is_no_damage_and_damage_is(
    server: EmbeddedServer, make: Callable[..., Sequencer], link: Link, namespace: str
) -> None:
    with FaultProxy(server.url) as proxy:
        seq = make(redis=proxy.url)
        seq.append("a", 1)
        for name in ERRORS:
            proxy.add(f"error {name}", on=("append", "claim", "ack"), times=None)
            assert broken(seq.doctor()) == [], name
            proxy.clear()
        link.command("DEL", shard_keys(namespace, "jobs", 0).schedule)
        assert broken(seq.doctor())
        assert broken(seq.doctor(repair=True)) == []


def test_a_policy_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match="no policy 'none'; there are: default"):
        chaos.run("smoke", only="none")


def test_every_missing_effect_has_an_act_that_brings_it_about() -> None:
    assert {again(kind, 1.0).deed for kind in EXPECTED} == {"proxy", "kill", "pause", "flush scripts"}
    assert again("QueueFull", 1.0).order["add"] == "error OOM"


def test_a_stale_run_that_ends_after_its_message_was_set_aside_is_no_disorder() -> None:
    def run(what: str, at: float, who: str, name: str, token: int) -> Event:
        return Event(what, at, who, "g", name, float(name), int(name), token)

    known = [Event(what, 0.0, "p", "g", name, kind="stored") for name in "12" for what in ("appending", "appended")]
    stale = [run("begun", 1, "a", "1", 10), Event("fault", 1, "a", kind="lease outlived", until=4)]
    later = [run("begun", 2, "b", "1", 20), run("failed", 2.1, "b", "1", 20)]
    next_one = [run("begun", 3, "b", "2", 30), run("ended", 3.1, "b", "2", 30), run("ended", 3.5, "a", "1", 10)]
    assert judge([*known, *stale, *later, *next_one]).disorder == 0
    assert judge([*known, *stale, *next_one]).order_violations == 1, "nobody decided"
    again_later = [run("begun", 4, "b", "1", 40), run("ended", 4.1, "b", "1", 40)]
    assert judge([*known, *stale, *later, *next_one, *again_later]).order_violations == 1, "it was not set aside"


def test_a_consumer_that_was_stopped_goes_on_when_its_supervisor_ended_meanwhile(tmp_path: Path) -> None:
    mark = f"CHAOS_TEST={tmp_path.name}-{os.getpid()}"
    environment = {**os.environ, "CHAOS_TEST": mark.partition("=")[2]}
    with subprocess.Popen(["sleep", "60"], env=environment) as consumer:
        ended = Child.__new__(Child)
        ended.role, ended.pid = "consumers", 0
        ended._process = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            wait_until(lambda: consumer.pid in strays(mark))
            os.kill(consumer.pid, signal.SIGSTOP)
            wait_until(lambda: status(consumer.pid) == "T")
            assert ended.end()
            paused = Paused(Recorder(tmp_path / "nemesis.events"), mark)
            paused._since.append((0.0, 0.0, ended, consumer.pid))
            paused.go_on()
            wait_until(lambda: status(consumer.pid) != "T")
            assert paused.pids == set()
        finally:
            consumer.kill()


def status(pid: int) -> str:
    """The state of a process, as in /proc: "T" for a stopped one."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
