"""Crash at every step: a few real trials, and negative control of the product that they must find."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from sequencer import EmbeddedServer, Message
from sequencer.calls import source as sources
from sequencer.testing import wire

from ..support.judge.judgement import judge
from .crash import fault_test as crash
from .crash.plan import every_chain, mismatch, named_points, slice_of
from .crash.points import KINDS, Case, Kind
from .crash.trial import Control, Trial
from .crash.verdict import Outcome
from .crash.work import LEASE_S, ROLES, Site, handle, persist

pytestmark = pytest.mark.nightly

HANDLER = "consumer.handler:before"


def tried(server: EmbeddedServer, directory: Path, case: Case, control: Control | None = None) -> Outcome:
    """One trial, in a directory of its own, made again where the machine stood still for longer than a lease."""
    for number in range(3):
        place = directory / str(number)
        place.mkdir(parents=True)
        outcome = Trial(server.url, place, case.variant, case, control).run()
        if not outcome.is_disturbed:
            break
    return outcome


# -- the product ----------------------------------------------------------------------------------------------------


def test_the_list_of_points_is_what_the_processes_pass(server: EmbeddedServer, tmp_path: Path) -> None:
    outcome = Trial(server.url, tmp_path, "default", None).run()
    assert outcome.problems == ()
    assert mismatch("default", outcome.passages) == []
    assert not outcome.is_reached


def test_a_killed_consumer_is_succeeded_and_its_death_is_seen(server: EmbeddedServer, tmp_path: Path) -> None:
    outcome = tried(server, tmp_path, Case("default", "consumer.handler:after", 3, "kill"))
    assert outcome.problems == ()
    assert outcome.is_reached
    assert outcome.is_expired, "the lease of the dead one was taken over"
    assert (outcome.judged.recovery_s or 0) > LEASE_S * 0.9


def test_a_stopped_consumer_cannot_acknowledge(server: EmbeddedServer, tmp_path: Path) -> None:
    outcome = tried(server, tmp_path, Case("default", HANDLER, 1, "stop"))
    assert outcome.problems == ()
    assert outcome.is_refused
    assert outcome.judged.duplicates >= 1, "both handled that message"


def coroutines(site: Site) -> None:
    """A consumer with worker slots on a loop."""
    handler = handle(site)

    async def on_loop(message: Message) -> None:
        handler(message)
        await asyncio.sleep(0.001)  # last: what begins after a stop counts as a run without a lease

    persist(site.seq.connect)
    site.seq.consume(on_loop, concurrency=4, lease=LEASE_S, until_empty=True)


@pytest.mark.parametrize("kind", ["kill", "stop"])
@pytest.mark.parametrize(
    "point", ["handler:before", "handler:after", "claim:sent", "ack:before", "ack:sent", "nack:sent"]
)
def test_a_consumer_of_coroutines_is_succeeded(server: EmbeddedServer, tmp_path: Path, point: str, kind: Kind) -> None:
    control = Control(roles={**ROLES, "consumer": coroutines})
    outcome = tried(server, tmp_path, Case("default", f"consumer.{point}", 2, kind), control)
    assert outcome.problems == ()
    assert outcome.is_reached


def test_one_case_by_its_command() -> None:
    result = crash.run("smoke", point="renewer.renew:before", passage=1, kind="kill", variant="default", seconds=60)
    assert result.is_passed, result.problems
    assert result.faults == {"kill": 1}
    assert "--point renewer.renew:before --passage 1 --kind 'kill' --variant default" in result.command


# -- negative control
# ---------------------------------------------------------------------------------------------------


def acking_first(site: Site) -> None:
    """A consumer that acknowledges before it handles."""
    handler = handle(site)
    while True:
        with site.seq.claim(messages=1, lease=LEASE_S) as lease:
            if not lease:
                return
            for message in lease:
                lease.ack(message)
                if message.id not in ("b-3", "k-1", "p-1", "c-4"):
                    handler(message._replace(attempt=2))


def test_a_consumer_that_acknowledges_first_loses_a_message(server: EmbeddedServer, tmp_path: Path) -> None:
    control = Control(roles={**ROLES, "consumer": acking_first})
    loss = "loss: group b: b-1 was stored, and never handled"
    for name, case, is_lost in (("whole", None, False), ("killed", Case("default", HANDLER, 2, "kill"), True)):
        (tmp_path / name).mkdir()
        outcome = Trial(server.url, tmp_path / name, "default", case, control).run()
        assert (loss in outcome.problems) is is_lost, outcome.problems


def without_token_check() -> None:
    """Scripts whose ack takes any token."""
    honest = sources.script_source

    def source(name: str) -> str:
        text = honest(name)
        if name != "ack":
            return text
        broken = text.replace("if not held or sub(held, 1, 16) ~= tokens[i] then", "if not held then")
        assert broken != text
        return broken

    sources.script_source = source  # type: ignore[assignment]
    sources.script_sha.cache_clear()
    wire.script_names.cache_clear()


def test_an_ack_without_a_token_check_is_found(server: EmbeddedServer, tmp_path: Path) -> None:
    case = Case("default", "consumer.ack:before", 1, "stop")
    assert tried(server, tmp_path / "honest", case).problems == ()
    (tmp_path / "broken").mkdir()
    outcome = Trial(server.url, tmp_path / "broken", "default", case, Control(prepare=without_token_check)).run()
    assert outcome.judged.disorder > 0, outcome.problems


# -- the plan -------------------------------------------------------------------------------------------------------


def test_a_point_that_nobody_passes_or_nobody_knows_is_a_problem() -> None:
    passages = dict.fromkeys(named_points("default"), 1)
    assert mismatch("default", passages) == []
    del passages["consumer.ack:sent"]
    passages["consumer.new:sent"] = 1
    assert len(mismatch("default", passages)) == 2


def test_a_first_passage_that_never_came_is_a_problem() -> None:
    case = Case("default", "renewer.ack:sent", 1, "kill")
    runner = crash.Runner(None, "", Path())  # type: ignore[arg-type]
    runner.add([Outcome(case=case, variant="default", is_reached=False, problems=(), passages={}, judged=judge([]))])
    assert runner.problems == [f"renewer.ack:sent was never reached; {case.command}"]


def test_a_slice_has_each_point_once_and_repeats_by_its_seed() -> None:
    everywhere = {point for variant in ("default", "sequence") for point in named_points(variant)}
    assert sorted(chain.point for chain in slice_of(7)) == sorted(everywhere)
    assert slice_of(7) == slice_of(7) != slice_of(8)
    assert {chain.kind for chain in every_chain()} == set(KINDS)
