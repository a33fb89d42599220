"""When handlers fail: retries, parked groups, resume and skip, messages at which consumers die."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sequencer import Message, Sequencer
from sequencer.errors import DataError, GroupBusy, GroupNotFound, NotParked
from sequencer.net.link import Link
from sequencer.store.keys import ShardKeys

from ..support.handling import consumed
from ..support.refused import refused


def test_a_failed_head_holds_its_group_back_and_no_other(seq: Sequencer) -> None:
    for n in range(4):
        seq.append(n, group="a", score=n)
        seq.append(n, group="b", score=n)
    seen: list[tuple[str, int, int]] = []

    def handler(message: Message) -> None:
        seen.append((message.group[0], message.body, message.attempt))
        if message.group == ("a",) and message.body == 1 and message.attempt < 3:
            raise ValueError("not yet")

    summary = seq.consume(handler, until_empty=True)
    assert (summary.handled, summary.failed) == (8, 2)
    assert [s[1:] for s in seen if s[0] == "a"] == [(0, 1), (1, 1), (1, 2), (1, 3), (2, 1), (3, 1)]
    assert [s[1:] for s in seen if s[0] == "b"] == [(0, 1), (1, 1), (2, 1), (3, 1)]


def test_after_its_last_attempt_a_group_is_parked_and_can_be_resumed(
    make: Callable[..., Sequencer],
) -> None:
    seq = make(max_attempts=2, backoff=0.01)
    for n in range(3):
        seq.append(n, group=["a", 1], score=n, id=f"m{n}")

    def fail(message: Message) -> None:
        raise KeyError(f"secret-free {message.body}")

    assert seq.consume(fail, until_empty=True).failed == 2
    (parked,) = seq.parked()
    assert (parked.group, parked.state, parked.backlog, parked.head_id) == (("a", "1"), "parked", 3, "m0")
    failure = parked.failure
    assert failure is not None
    assert (failure.id, failure.type, failure.attempt) == ("m0", "KeyError", 2)
    assert "secret-free 0" in failure.message
    assert failure.traceback.splitlines()[1].endswith("in fail"), "our own frames are left out"
    assert seq.consume(fail, until_empty=True).failed == 0, "parked: nothing to do"
    assert seq.resume(["a", 1]) is True
    assert seq.resume(["a", 1]) is False, "due already"
    assert [(m.body, m.attempt) for m in consumed(seq)] == [(0, 1), (1, 1), (2, 1)], "resumed with fresh attempts"


def test_resume_and_skip_say_why_not(seq: Sequencer) -> None:
    with refused(GroupNotFound, "group_not_found", group=("nobody",)):
        seq.resume("nobody")
    with pytest.raises(GroupNotFound):
        seq.skip("nobody")
    seq.append(1, group="g")
    with refused(NotParked, "no_failed_head"):
        seq.skip("g")
    with seq.claim() as lease:
        assert lease
        with pytest.raises(GroupBusy):
            seq.resume("g")


def test_a_body_that_can_not_be_decoded_parks_its_group_and_is_kept(
    seq: Sequencer, link: Link, keys: ShardKeys
) -> None:
    for n in range(3):
        seq.append(n, group="g", id=f"m{n}", score=n)
    record = link.command("HGET", keys.body("g"), "m1")
    link.command("HSET", keys.body("g"), "m1", record[:21] + b"\xffnot json")
    seen: list[int] = []
    assert seq.consume(lambda m: seen.append(m.body), until_empty=True).failed == 1
    assert seen == [0]
    (parked,) = seq.parked()
    assert parked.failure is not None
    assert (parked.failure.type, parked.failure.id) == ("Undecodable", "m1")
    assert [message.body for message in seq.peek("g")] == ["\\xffnot json", 2]
    skipped = seq.skip("g")
    assert isinstance(skipped, Message)
    assert skipped.body == "\\xffnot json"
    seq.consume(lambda m: seen.append(m.body), until_empty=True)
    assert seen == [0, 2]


def test_a_crash_counts_against_the_message_that_was_held_alone(
    make: Callable[..., Sequencer], link: Link, keys: ShardKeys
) -> None:
    seq = make(max_attempts=1)
    for group in "abc":
        seq.append(1, group=group)
    seq.claim(groups=3, lease=30)  # ... and the process is gone
    for group in "abc":
        link.command("ZADD", keys.schedule, "XX", "1", group)
    alone = seq.claim(groups=3, lease=30)
    (message,) = alone
    assert message.attempt == 1, "one of three: each is tried alone first"
    link.command("ZADD", keys.schedule, "XX", "1", message.group[0])  # ... and it dies again
    seen: list[str] = []
    summary = seq.consume(lambda m: seen.append(m.group[0]), until_empty=True)
    assert (summary.handled, summary.failed) == (2, 1)
    assert [info.group for info in seq.parked()] == [message.group]


@pytest.mark.parametrize("name", ["dedup", "watermarks", "memory", "dead", "dead_letters"])
def test_a_key_of_another_type_stops_a_script_before_its_first_write(
    make: Callable[..., Sequencer], link: Link, keys: ShardKeys, name: str
) -> None:
    seq = make(dead_letter_on=("KeyError",), on_late="dead_letter")
    seq.append(1, group="g", id="x")
    with seq.claim() as lease:
        message = next(iter(lease))
        link.command("SET", getattr(keys, name), "foreign")
        before = {key: link.command("DUMP", key) for key in link.command("KEYS", keys.prefix + "*")}
        with pytest.raises(DataError):
            lease.nack(message, KeyError())
        with pytest.raises(DataError):
            make().append(2, group="g", id="y")
        after = {key: link.command("DUMP", key) for key in link.command("KEYS", keys.prefix + "*")}
        assert after == before
        link.command("DEL", getattr(keys, name))
    assert seq.consume(lambda message: None, until_empty=True).handled == 1


def test_a_keyboard_interrupt_that_a_step_or_an_observer_raises_counts_as_any_error(
    make: Callable[..., Sequencer],
) -> None:
    """As from `input()` without a terminal: only a SIGINT of this process ends its consumer."""
    seq = make(max_attempts=2, backoff=0.01)

    @seq.step
    def step(message: Message) -> None:
        raise KeyboardInterrupt

    @seq.observe
    def observer(_event: object) -> None:
        raise KeyboardInterrupt

    seq.append(1, group="g")
    assert seq.consume(until_empty=True).failed == 2
    (parked,) = seq.parked()
    assert parked.failure is not None
    assert (parked.state, parked.failure.type) == ("parked", "KeyboardInterrupt")
