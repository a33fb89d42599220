"""Negative controls: changes of the library and its scripts that the simulation catches, each by its own problem."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from sequencer.calls.claim import Claimed
from sequencer.drain import outcome, protocol
from sequencer.drain.effects import Handle
from sequencer.drain.held import Held
from sequencer.drain.slots import Slots
from sequencer.drain.steps.rules import View
from sequencer.drain.steps.runner import StepRunner
from sequencer.store.watermark import Sequenced

from ..support.changed_script import changed_script
from .simulate.scenario import scenario
from .simulate.seed import Ground, play_seed, stage_set

pytestmark = pytest.mark.nightly

SEEDS_FOR_A_CONTROL = 200
"""Most are caught within 10 seeds, from 0 on."""


@pytest.fixture(scope="module")
def ground() -> Iterator[Ground]:
    with stage_set() as ground:
        yield ground


@contextmanager
def changed(where: Any, name: str, value: Any) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(where, name, value)
        yield


def _success_whatever(group: Any, end: Any, runner: Any) -> Any:
    """A drain that goes on with the next message after a failure."""
    for message in group.leased.messages:
        began = runner.clock()
        yield Handle(message)
        runner.held.finish(group, began, runner.clock())


def _forgetful(self: Sequenced, number: int) -> Sequenced:
    return Sequenced(max(number, self.number))


def _unwaited(self: StepRunner, *asked: Any, **about: Any) -> Any:
    """A pass that goes on without its note."""
    yield from ()
    return 1


def _is_open(real: Callable[..., bool]) -> Callable[..., bool]:
    return lambda self, step: real(self, step) or self.entry(step.name).state == "started"


def _twice(real: Callable[..., Any]) -> Callable[..., Any]:
    """A hub that gives the first group to two slots."""

    def claimed(self: Slots, part: Any, claimed: Claimed, *times: float) -> Any:
        return real(self, part, replace(claimed, groups=claimed.groups[:1] + claimed.groups), *times)

    return claimed


class Control(NamedTuple):
    """A change, what a problem must say (""; anything), and with which seeds it shows."""

    change: Callable[[], AbstractContextManager[None]]
    reason: str = ""
    policy: str = ""
    steps: bool = False


TOKEN = "if not held or sub(held, 1, 16) ~= token then return 0 end"
CONTROLS: dict[str, Control] = {
    "ack without token check": Control(
        lambda: changed_script("ack", "if not held or sub(held, 1, 16) ~= tokens[i] then", "if false then")
    ),
    "renew without token check": Control(
        lambda: changed_script("renew", "if held and sub(held, 1, 16) == word[2] then", "if true then")
    ),
    "append without schedule": Control(lambda: changed_script("append", "call('ZADD', schedule, unpack(news))", "")),
    "append that forgets handled ids": Control(lambda: changed_script("append", "if is_seen then return '=' end", "")),
    "append that keeps half a batch": Control(
        lambda: changed_script("append", "remove_pending(word_of(batch, i))", ""), "was claimed where"
    ),
    "claim that counts no attempt": Control(
        lambda: changed_script("claim", "expired and sub(expired, 17,", "sub('', 17,"), "claimed as tried"
    ),
    "claim without gaps": Control(
        lambda: changed_script("claim", "> mark + 1 then", "> mark + 1e9 then"), "a gap that nobody skipped", "sequence"
    ),
    "nack that holds for too long": Control(
        lambda: changed_script("nack", "tonumber(delay_ms) * 1000", "tonumber(delay_ms) * 3000"),
        "found nothing, though",
    ),
    "dead letter with another score": Control(
        lambda: changed_script("nack", "letter, score .. ", "letter, score + 1 .. "), "dead letter "
    ),
    "drain that goes on after a failure": Control(
        lambda: changed(protocol, "_handle_group", _success_whatever), "loss: "
    ),
    "consumer that never renews": Control(lambda: changed(Held, "_renews", lambda self, now: False)),
    "drain that drops dead letters": Control(
        lambda: changed(outcome, "ENDING_BY_OPTION", {**outcome.ENDING_BY_OPTION, "dead_letter": "drop"}), "loss: "
    ),
    "group given to two worker slots": Control(
        lambda: changed(Slots, "_claimed", _twice(Slots._claimed)), "unexplained duplicate: "
    ),
    "sequence that forgets what it skipped": Control(
        lambda: changed(Sequenced, "passed", _forgetful), "never came", "sequence, gaps skipped"
    ),
    "step that goes on without a note": Control(
        lambda: changed(StepRunner, "note", _unwaited), "not noted: ", steps=True
    ),
    "once step run as automatic": Control(
        lambda: changed(View, "is_open", _is_open(View.is_open)), "runs once", steps=True
    ),
    "save_step that writes nothing": Control(
        lambda: changed_script(
            "save_step", "call('HSET', body, id, rewritten(record, progressed and '0' or '', ledger))", ""
        ),
        steps=True,
    ),
    "save_step without its token": Control(lambda: changed_script("save_step", TOKEN, ""), "save_step of", steps=True),
}


@pytest.mark.parametrize("name", CONTROLS)
def test_it_is_caught_for_its_reason(ground: Ground, name: str) -> None:
    change, reason, policy, steps = CONTROLS[name]
    seeds = (seed for seed in itertools.count() if policy in ("", scenario(seed).policy))
    with change():
        assert any(
            reason in problem
            for seed in itertools.islice(seeds, SEEDS_FOR_A_CONTROL)
            for problem in play_seed(ground, seed, steps=steps).problems
        ), f"{SEEDS_FOR_A_CONTROL} seeds did not catch it"
