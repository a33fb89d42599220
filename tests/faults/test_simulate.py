"""The simulation itself: it is deterministic, sound code passes, and each broken twin of the library is caught."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any, NamedTuple

import pytest

from sequencer import drain, scripts
from sequencer.appender import Appender
from sequencer.calls import Claimed, LeasedGroup
from sequencer.faults.simulate.proof import ENOUGH, EXPECTED, MAX_PROBLEMS, result_of, run
from sequencer.faults.simulate.scenario import scenario
from sequencer.faults.simulate.seed import Ground, play_seed, stage_set
from sequencer.holdings import Holdings
from sequencer.keys import lane_keys
from sequencer.message import Message
from sequencer.options import ConsumerOptions, QueueOptions
from sequencer.testing import wire

SEEDS_FOR_A_TWIN = 100
"""Most twins are caught within 10 seeds, from 0 on."""


@pytest.fixture(scope="module")
def ground() -> Iterator[Ground]:
    with stage_set() as ground:
        yield ground


def test_sound_code_passes(ground: Ground) -> None:
    for seed in range(12):
        played = play_seed(ground, seed)
        assert not played.problems, f"seed {seed}: {played.problems}"
        assert played.judgement.messages


def test_same_seed_same_trace(ground: Ground) -> None:
    for seed in (1, 5, 9):
        once, again = play_seed(ground, seed), play_seed(ground, seed)
        assert once.trace == again.trace
        assert once.events == again.events
        assert len(once.trace) > 100
    assert play_seed(ground, 2).trace != play_seed(ground, 3).trace


def test_clock_going_back_only_delays(ground: Ground) -> None:
    for seed in range(4):
        played = play_seed(ground, seed, backward=True)
        assert not played.problems, f"seed {seed}: {played.problems}"
        assert played.faults["clock backward"]


def test_run_says_how_to_repeat(capsys: pytest.CaptureFixture[str]) -> None:
    result = run("smoke", seed=1, trace=True)
    assert result.is_passed
    assert result.runs == 1
    assert result.command == "python -m sequencer.faults simulate --seed 1"
    assert "sends claim" in capsys.readouterr().out


def test_many_seeds_without_a_kind_of_fault_fail(ground: Ground) -> None:
    calm = play_seed(ground, 2)
    calm.faults.clear()
    result = result_of([calm] * ENOUGH, "simulate", 0.0, backward=False)
    missing = [f"fault that never took effect: {kind}" for kind in EXPECTED]
    assert [*result.problems[:-1]] == missing[:MAX_PROBLEMS]
    assert result.problems[-1] == f"... and {len(missing) - MAX_PROBLEMS} more problems"
    assert result_of([calm], "simulate", 0.0, backward=False).is_passed


def test_no_message_begins_after_a_flush_that_outlasted_the_lease() -> None:
    """A flush whose answer took longer than the lease, with no renewal due when it was sent. Simulated."""
    now = [0.0]
    keys = lane_keys("n", "q", 0)
    holdings, options = Holdings([keys], 2.0), ConsumerOptions(lease_s=2.0)
    messages = [Message(str(n), ("g",), float(n), None, {}, 1, 9, 0.0, "q", n) for n in range(3)]
    members = [f"{n:016d}{n}" for n in range(3)]
    group = LeasedGroup("g", ("g",), "9" * 16, "", messages, members, ["0", "1", "2"], "", "handle")
    effects = drain.drain(
        holdings,
        QueueOptions(queue="q"),
        options,
        drain.Control(),
        owner="me",
        clock=lambda: now[0],
        wall=lambda: now[0],
        random=lambda: 0.5,
        lock=nullcontext(),
    )
    assert isinstance(next(effects), drain.Exchange)
    holdings.take(0, [group], 0.0, 0.0)
    assert effects.send(Claimed([group])) is messages[0]
    now[0] = 0.03  # so slow that its ack is due before the next message
    assert isinstance(effects.send(None), drain.Flush)
    now[0] = 5.0  # the answer came after the lease
    assert isinstance(effects.send(None), drain.Exchange)


# -- broken twins -----------------------------------------------------------------------------------------------


@contextmanager
def changed_script(name: str, old: str, new: str) -> Iterator[None]:
    """The library with another text in one of its scripts."""
    real = scripts.script_source
    assert old in real(name), f"{name}.lua has no {old!r} any more; change this twin"

    def source(script: str) -> str:
        text = real(script)
        return text.replace(old, new) if script == name else text

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scripts, "script_source", source)
        _forget()
        try:
            yield
        finally:
            patch.undo()
            _forget()


def _forget() -> None:
    scripts.script_sha.cache_clear()
    wire.script_names.cache_clear()
    wire._now_at.cache_clear()


@contextmanager
def changed(where: Any, name: str, value: Any) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(where, name, value)
        yield


def _without_deadline(real: Callable[..., Any]) -> Callable[..., Any]:
    def take(self: Holdings, *args: Any) -> None:
        real(self, *args)
        self.deadline = float("inf")

    return take


def _success_whatever(holdings: Any, held: Any, queue: Any, control: Any, clock: Any, lock: Any) -> Any:
    """A drain that goes on with the next message after a failure."""
    for message in held.leased.messages:
        began = clock()
        yield message
        holdings.finish(held, began, clock())


def _one_attempt(real: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, held, attempts, *rest: real(self, held, 1, *rest)


def _always_stored(real: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **options: real(*args, **options)._replace(duplicate=False, outcome="stored")


class Twin(NamedTuple):
    """What a problem must say, and with which policy it shows ("": any)."""

    reason: str
    policy: str = ""


UNSEEN = "found nothing, though"
UNDO = "for _, i in ipairs(stored) do take(words[i][1], words[i][2]) end"
CHECK = "if not held or sub(held, 1, 16) ~= word[2] then"
TWINS: dict[str, Callable[[], Any]] = {
    "ack without token check": lambda: changed_script("ack", CHECK, "if false then"),
    "renew without token check": lambda: changed_script(
        "renew", "if held and string.sub(held, 1, 16) == word[2] then", "if true then"
    ),
    "claim that leases for no time": lambda: changed_script("claim", "now + lease_ms * 1000", "now"),
    "claim that takes an old token": lambda: changed_script(
        "claim", "fmt('%.0f', math.max(clock + 1, now))", "fmt('%.0f', math.max(clock, 1))"
    ),
    "nack that leaves the lease": lambda: changed_script("nack", "call('HDEL', leases, group)\nif name", "if name"),
    "nack without token check": lambda: changed_script(
        "nack", "if not held or sub(held, 1, 16) ~= token then return 0 end", ""
    ),
    "append without schedule": lambda: changed_script(
        "append",
        "if call('ZADD', schedule, 'NX', fmt('%.0f', at), group) == 0 then",
        "if call('EXISTS', schedule) == 1 then",
    ),
    "append that forgets handled ids": lambda: changed_script("append", "if seen[i] then return '=' end", ""),
    "holdings without deadline": lambda: changed(Holdings, "take", _without_deadline(Holdings.take)),
    "drain that goes on after a failure": lambda: changed(drain, "_handle_group", _success_whatever),
    "consumer that never renews": lambda: changed(
        Holdings, "tick", lambda self, now: self.outgoing() if self._acks else None
    ),
}


IN_SCRIPTS: dict[str, tuple[str, str, str, Twin]] = {
    "gate without delays": ("claim", "return at > now and at or 0", "return 0", Twin("is due at")),
    "gate without gaps": (
        "claim",
        "> mark + 1 then",
        "> mark + 1e9 then",
        Twin("a gap that nobody skipped", "sequence"),
    ),
    "claim of what is paused": ("claim", "policy[1] == '1', call('SCARD', paused) > 0", "false, false", Twin("paused")),
    "claim that leases for too long": (
        "claim",
        "now + lease_ms * 1000)",
        "now + lease_ms * 3000)",
        Twin("asked for until"),
    ),
    "claim that counts no attempt": (
        "claim",
        "if expired and sub(expired, 17,",
        "if sub('', 17,",
        Twin("claimed as tried"),
    ),
    "renew that leases for too long": (
        "renew",
        "now + lease_ms * 1000)",
        "now + lease_ms * 5000)",
        Twin("asked for until"),
    ),
    "nack without backoff": ("nack", "now + tonumber(delay_ms) * 1000)", "now)", Twin("while a failure holds it")),
    "claim that puts off for too long": ("claim", "fmt('%.0f', opens_at)", "fmt('%.0f', opens_at + 5e5)", Twin(UNSEEN)),
    "nack that holds for too long": ("nack", "tonumber(delay_ms) * 1000", "tonumber(delay_ms) * 3000", Twin(UNSEEN)),
    "ack that counts twice": ("ack", "'handled', handled)", "'handled', 2 * handled)", Twin("stats of")),
    "ack without watermarks": (
        "ack",
        "remember_marks(marks, tonumber",
        "remember_marks({}, tonumber",
        Twin("watermark"),
    ),
    "append that takes late ones": ("append", "and LATE[on_late] or", "and", Twin("came to watermark", "late refused")),
    "append that drops late ones": (
        "append",
        "dead_letter = 'x'",
        "dead_letter = '~'",
        Twin("append said ~", "late dead"),
    ),
    "append that loses late ones": (
        "append",
        "fate == 'x' then bury",
        "1 > 2 then bury",
        Twin("never handled", "late dead"),
    ),
    "append that hides conflicts": ("append", "(same and '=' or '!')", "'='", Twin("is pending with other content")),
    "append that keeps half a batch": ("append", UNDO, "", Twin("was claimed where")),
    "append that wakes nobody": ("append", "then wake(group, first[group]) end", "then end", Twin("is looked at by")),
    "append that mixes contents": (
        "append",
        "head .. ARGV[4 + i])",
        "head .. ARGV[5 + #words - i])",
        Twin("of another"),
    ),
    "redrive without its flag": ("redrive", "stamp .. '0000R'", "stamp .. '00000'", Twin("was redriven")),
}
IN_CODE: dict[str, tuple[Any, str, Any, Twin]] = {
    "receipt that says stored": (Appender, "append", _always_stored(Appender.append), Twin("was told as stored")),
    "drain that drops dead letters": (drain, "ENDINGS", {**drain.ENDINGS, "dead_letter": "drop"}, Twin("loss: ")),
    "drain that drops what is parked": (drain, "ENDINGS", {**drain.ENDINGS, "park": "drop"}, Twin("loss: ")),
    "drain that never gives up": (drain, "has_expired", lambda *_: False, Twin("is the most")),
    "failures that count once": (Holdings, "fail", _one_attempt(Holdings.fail), Twin("counts as tried")),
}


def seeds_until_caught(ground: Ground, reason: str = "", policy: str = "") -> tuple[int, str] | None:
    """How many seeds with this policy until one fails with such a problem, and the problem."""
    seeds = (seed for seed in itertools.count() if policy in ("", scenario(seed).policy))
    for count, seed in enumerate(itertools.islice(seeds, SEEDS_FOR_A_TWIN), 1):
        for problem in play_seed(ground, seed).problems:
            if reason in problem:
                return count, problem
    return None


@pytest.mark.parametrize("twin", TWINS)
def test_broken_twin_is_caught(ground: Ground, twin: str) -> None:
    with ExitStack() as stack:
        stack.enter_context(TWINS[twin]())
        assert seeds_until_caught(ground), f"{SEEDS_FOR_A_TWIN} seeds did not catch it"


@pytest.mark.parametrize("twin", [*IN_SCRIPTS, *IN_CODE])
def test_broken_twin_is_caught_for_its_reason(ground: Ground, twin: str) -> None:
    change = changed_script if twin in IN_SCRIPTS else changed
    *what, (reason, policy) = IN_SCRIPTS[twin] if twin in IN_SCRIPTS else IN_CODE[twin]
    with change(*what):
        assert seeds_until_caught(ground, reason, policy), f"{SEEDS_FOR_A_TWIN} seeds did not catch it"
