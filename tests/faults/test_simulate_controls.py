"""Broken controls of the library that the simulation catches, each by its own problem."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import pytest

from sequencer.drain import admission, outcome, protocol
from sequencer.drain.effects import Handle
from sequencer.drain.held import Held
from sequencer.drain.outcome import ENDING_BY_OPTION
from sequencer.net.appender import Appender
from sequencer.store.watermark import Sequenced

from ..support.changed_script import changed_script
from .simulate.scenario import scenario
from .simulate.seed import Ground, play_seed, stage_set

pytestmark = pytest.mark.nightly

SEEDS_FOR_A_CONTROL = 200
"""Most controls are caught within 10 seeds, from 0 on."""


@pytest.fixture(scope="module")
def ground() -> Iterator[Ground]:
    with stage_set() as ground:
        yield ground


@contextmanager
def changed(where: Any, name: str, value: Any) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(where, name, value)
        yield


def _without_deadline(real: Callable[..., Any]) -> Callable[..., Any]:
    def take(self: Held, *args: Any) -> None:
        real(self, *args)
        self.deadline = float("inf")

    return take


def _success_whatever(held: Any, group: Any, queue: Any, control: Any, clock: Any) -> Any:
    """A drain that goes on with the next message after a failure."""
    for message in group.leased.messages:
        began = clock()
        yield Handle(message)
        held.finish(group, began, clock())


def _one_attempt(real: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, group, told: real(self, group, told._replace(attempts=1))


def _always_stored(real: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **options: real(*args, **options)._replace(duplicate=False, outcome="stored")


def _forgetful(self: Sequenced, number: int) -> Sequenced:
    return Sequenced(max(number, self.number))


class Control(NamedTuple):
    """What a problem must say, and with which policy it shows ("": any)."""

    reason: str
    policy: str = ""


UNSEEN = "found nothing, though"
LETTER = "dead letter "
UNDO = "remove_pending(word_of(batch, i))"
CHECK = "if not held or sub(held, 1, 16) ~= word[2] then"
CONTROLS: dict[str, Callable[[], Any]] = {
    "ack without token check": lambda: changed_script("ack", CHECK, "if false then"),
    "renew without token check": lambda: changed_script(
        "renew", "if held and sub(held, 1, 16) == word[2] then", "if true then"
    ),
    "claim that leases for no time": lambda: changed_script("claim", "now + lease_ms * 1000", "now"),
    "claim that takes an old token": lambda: changed_script(
        "claim", "clock < now and now_text or fmt('%.0f', clock + 1)", "fmt('%.0f', math.max(clock, 1))"
    ),
    "nack that leaves the lease": lambda: changed_script("nack", "call('HDEL', leases, group)\nif name", "if name"),
    "nack without token check": lambda: changed_script(
        "nack", "if not held or sub(held, 1, 16) ~= token then return 0 end", ""
    ),
    "append without schedule": lambda: changed_script(
        "append",
        "call('ZADD', schedule, unpack(news))",
        "",
    ),
    "append that forgets handled ids": lambda: changed_script("append", "if is_seen then return '=' end", ""),
    "held without deadline": lambda: changed(Held, "take", _without_deadline(Held.take)),
    "drain that goes on after a failure": lambda: changed(protocol, "_handle_group", _success_whatever),
    "consumer that never renews": lambda: changed(Held, "_renews", lambda self, now: False),
}


IN_SCRIPTS: dict[str, tuple[str, str, str, Control]] = {
    "gate without delays": ("claim", "return at > now and at or 0, is_gap", "return 0, is_gap", Control("is due at")),
    "gate without gaps": (
        "claim",
        "> mark + 1 then",
        "> mark + 1e9 then",
        Control("a gap that nobody skipped", "sequence"),
    ),
    "claim of what is paused": (
        "claim",
        "local is_paused = policy[2] == '1'",
        "some_paused = false local is_paused = false",
        Control("paused"),
    ),
    "claim that leases for too long": (
        "claim",
        "now + lease_ms * 1000)",
        "now + lease_ms * 3000)",
        Control("asked for until"),
    ),
    "claim that counts no attempt": (
        "claim",
        "expired and sub(expired, 17,",
        "sub('', 17,",
        Control("claimed as tried"),
    ),
    "renew that leases for too long": (
        "renew",
        "now + lease_ms * 1000)",
        "now + lease_ms * 5000)",
        Control("asked for until"),
    ),
    "nack without backoff": ("nack", "now + tonumber(delay_ms) * 1000)", "now)", Control("while a failure holds it")),
    "claim that defers for too long": (
        "claim",
        "math.huge and fmt('%.0f', at)",
        "math.huge and fmt('%.0f', at + 5e5)",
        Control(UNSEEN),
    ),
    "nack that holds for too long": ("nack", "tonumber(delay_ms) * 1000", "tonumber(delay_ms) * 3000", Control(UNSEEN)),
    "ack that counts twice": ("ack", "'handled', handled)", "'handled', 2 * handled)", Control("stats of")),
    "ack without watermarks": (
        "ack",
        "remember_marks(marks, mark_us",
        "remember_marks({}, mark_us",
        Control("watermark"),
    ),
    "append that takes late ones": (
        "append",
        "and LATE[rules.on_late] or",
        "and",
        Control("came to watermark", "late refused"),
    ),
    "append that drops late ones": (
        "append",
        "dead_letter = 'x'",
        "dead_letter = '~'",
        Control("append said ~", "late dead"),
    ),
    "append that loses late ones": (
        "append",
        "if fate == 'x' then",
        "if 1 > 2 then",
        Control("never handled", "late dead"),
    ),
    "append that hides conflicts": (
        "append",
        "return same and '=' or '!',",
        "return '=',",
        Control("is pending with other content"),
    ),
    "append that keeps half a batch": ("append", UNDO, "", Control("was claimed where")),
    "append that wakes nobody": ("append", "then\nwake(group, at)", "then", Control("is looked at by")),
    "append that mixes contents": (
        "append",
        "head .. ARGV[4 + i]",
        "head .. ARGV[5 + batch.total - i]",
        Control("of another"),
    ),
    "claim of an expired group with others": (
        "claim",
        "if expired and (is_ahead or #groups > 0) then break",
        "if expired and is_ahead then break",
        Control("was claimed with another"),
    ),
    "claim of all messages of an expired group": (
        "claim",
        "expired and 0 or part_of(",
        "part_of(",
        Control("its head"),
    ),
    "nack that counts endings twice": (
        "nack",
        "pcall('HINCRBY', stats, name, 1)",
        "pcall('HINCRBY', stats, name, 2)",
        Control("stats of"),
    ),
    "nack that counts failures twice": ("nack", "'failed', 1)", "'failed', 2)", Control("stats of")),
    "dead letter with another failure": (
        "nack",
        "score, record, failure)\nend",
        "score, record, '{}')\nend",
        Control(LETTER),
    ),
    "dead letter with another score": (
        "nack",
        "then\nset_aside(group, member, score, record",
        "then\nset_aside(group, member, score + 1, record",
        Control(LETTER),
    ),
    "append that says its own score of every message": (
        "append",
        "return id, seconds .. us .. '00000'",
        "return id, seconds .. us .. '0000A'",
        Control("was claimed with score"),
    ),
    "redrive without its flag": ("redrive", "'0000', 'R', ''", "'0000', '0', ''", Control("was redriven")),
}
SKIPS = "sequence, gaps skipped"
IN_CODE: dict[str, tuple[Any, str, Any, Control]] = {
    "sequence that forgets what it skipped": (Sequenced, "passed", _forgetful, Control("never came", SKIPS)),
    "receipt that says stored": (Appender, "append", _always_stored(Appender.append), Control("was told as stored")),
    "drain that drops dead letters": (
        outcome,
        "ENDING_BY_OPTION",
        {**outcome.ENDING_BY_OPTION, "dead_letter": "drop"},
        Control("loss: "),
    ),
    "drain that drops what is parked": (
        outcome,
        "ENDING_BY_OPTION",
        {**ENDING_BY_OPTION, "park": "drop"},
        Control("loss: "),
    ),
    "drain that never gives up": (admission, "has_expired", lambda *_: False, Control("is the most")),
    "failures that count once": (Held, "fail", _one_attempt(Held.fail), Control("counts as tried")),
}


def seeds_until_caught(ground: Ground, reason: str = "", policy: str = "") -> tuple[int, str] | None:
    """How many seeds with this policy until one fails with such a problem, and the problem."""
    seeds = (seed for seed in itertools.count() if policy in ("", scenario(seed).policy))
    for count, seed in enumerate(itertools.islice(seeds, SEEDS_FOR_A_CONTROL), 1):
        for problem in play_seed(ground, seed).problems:
            if reason in problem:
                return count, problem
    return None


@pytest.mark.parametrize("control", CONTROLS)
def test_broken_control_is_caught(ground: Ground, control: str) -> None:
    with ExitStack() as stack:
        stack.enter_context(CONTROLS[control]())
        assert seeds_until_caught(ground), f"{SEEDS_FOR_A_CONTROL} seeds did not catch it"


@pytest.mark.parametrize("control", [*IN_SCRIPTS, *IN_CODE])
def test_broken_control_is_caught_for_its_reason(ground: Ground, control: str) -> None:
    change = changed_script if control in IN_SCRIPTS else changed
    *what, (reason, policy) = IN_SCRIPTS[control] if control in IN_SCRIPTS else IN_CODE[control]
    with change(*what):
        assert seeds_until_caught(ground, reason, policy), f"{SEEDS_FOR_A_CONTROL} seeds did not catch it"
