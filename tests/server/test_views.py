"""What people see of a queue: info, groups, peek, parked; and the check of invariants that tests rely on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sequencer import Retry, Sequencer, StopConsuming
from sequencer.client import list_queues
from sequencer.doctor.invariants import check_invariants
from sequencer.errors import ConfigurationError, GroupNotFound, InvalidMessage
from sequencer.net.link import Link
from sequencer.queue import counts
from sequencer.store.keys import shard_keys
from sequencer.testing.wire import Wire, name_of, wired

NAMED = ("{o", "{b", "{s", "{l", "{f", "{c", "{p")
"""How a name in braces begins, as against JSON."""


def prepare(seq: Sequencer) -> None:
    """One group in each state, in a queue whose clients park at the first failure."""
    seq.append(1, group=["p", 1], id="bad", score=1)
    seq.append(1, group="w", score=1)

    def fail(message: Any) -> None:
        if message.group == ("w",):
            raise Retry(after=60)
        raise ValueError("no")

    seq.consume(fail, max_messages=2)
    for n in range(3):
        seq.append(n, group=["p", 1], score=n + 5)
        seq.append(n, group="d", score=n)


def test_info_counts_groups_by_state_and_messages(make: Callable[..., Sequencer]) -> None:
    seq = make(max_attempts=1)
    seq.append(1, group="l")
    with seq.claim(lease=30) as lease:
        prepare(make(max_attempts=2))
        assert lease
        info = seq.info()
        counts = (info.groups, info.due, info.leased, info.waiting, info.parked)
        assert counts == (4, 1, 1, 2, 0)
        assert (info.backlog, info.is_estimate, info.shards) == (9, False, 1)
        assert info.lag_s > 0
        assert (info.totals["appended"], info.totals["failed"]) == (9, 2)
        states = {group.group: group.state for group in seq.groups()}
        assert states == {("d",): "due", ("l",): "leased", ("w",): "waiting", ("p", "1"): "waiting"}
        (leased,) = seq.groups("leased")
        assert leased.owner == lease.owner
        assert leased.token is not None
        assert 0 <= (leased.leased_for_s or 0) < 30
        assert 0 < (leased.due_in_s or 0) <= 30
        (waiting, _) = sorted(seq.groups("waiting"), key=lambda group: group.backlog)
        assert (waiting.attempts, 0 < (waiting.due_in_s or 0) <= 60) == (1, True)
        assert waiting.failure is not None
        assert waiting.failure.type == "Retry"


def test_a_lease_that_has_ended_is_due_and_not_leased(seq: Sequencer, link: Link, namespace: str) -> None:
    seq.append(1, group="g")
    with seq.claim(lease=30):
        link.command("ZADD", shard_keys(namespace, "jobs", 0).schedule, "XX", "1", "g")
        info = seq.info()
    assert (info.groups, info.due, info.leased, info.waiting) == (1, 1, 0, 0)


def test_many_leases_are_all_counted(seq: Sequencer) -> None:
    seq.append_many({"body": n, "group": n} for n in range(700))
    with seq.claim(groups=700, messages=700) as lease:
        assert len(lease) == 700
        info = seq.info()
        assert (info.groups, info.due, info.leased, info.waiting) == (700, 0, 700, 0)
        assert len([group for group in seq.groups("leased", limit=1000) if group.owner == lease.owner]) == 700


def test_no_count_is_negative_when_a_group_is_claimed_between_two_of_its_looks(
    make: Callable[..., Sequencer], seq: Sequencer
) -> None:
    leases: list[Any] = []

    class Claiming(Wire):
        def sending(self, commands: list[Any]) -> list[Any]:
            if name_of(commands[0]) == "HSCAN" and not leases:
                leases.append(seq.claim(lease=30))
            return commands

    seq.append(1, group="g")
    info = make(redis=wired(seq.endpoint, Claiming)).info()
    assert leases[0]
    assert (info.groups, info.due, info.leased, info.waiting) == (1, 1, 1, 0)
    leases[0].release()


def test_rates_come_from_two_looks(seq: Sequencer) -> None:
    assert seq.info().append_rate is None
    for n in range(10):
        seq.append(n, group="g")
    seq.consume(lambda message: None, until_empty=True)
    info = seq.info()
    assert (info.append_rate or 0) > 0
    assert (info.handle_rate or 0) > 0
    assert seq.info().append_rate == 0


def test_a_large_queue_is_estimated_from_a_sample(seq: Sequencer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that have waited longest have one message each, the others three: the sample has some of both."""
    monkeypatch.setattr(counts, "EXACT_GROUPS", 1000)
    groups = [*range(6000), *range(3000, 6000), *range(3000, 6000)]
    seq.append_many({"body": n, "group": group, "score": n} for n, group in enumerate(groups))
    info = seq.info()
    assert info.is_estimate
    assert info.groups == 6000
    assert info.backlog == 12_000
    assert len(seq.groups(limit=700)) == 700


def test_groups_and_peek_respect_their_limits(seq: Sequencer) -> None:
    for n in range(12):
        seq.append(n, group="g", score=n)
        seq.append(n, group=n)
    assert len(seq.groups(limit=5)) == 5
    assert [message.body for message in seq.peek("g", limit=3)] == [0, 1, 2]
    assert seq.peek("nobody") == []
    for call in (lambda: seq.groups(limit=0), lambda: seq.peek("g", limit=0), lambda: seq.groups("gone")):  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError):
            call()


def test_a_look_at_a_queue_does_not_make_it(make: Callable[..., Sequencer], server: Any, namespace: str) -> None:
    seq = make("typo")
    assert (seq.info().groups, seq.groups(), seq.peek("g"), list(seq.parked())) == (0, [], [], [])
    with pytest.raises(GroupNotFound):
        seq.resume("g")
    assert list_queues(server.url, namespace) == []
    make("typo", shards=3).append(1, group="g")
    assert (seq.info().shards, seq.info().backlog) == (3, 1)


def test_queues_of_a_namespace_are_listed(make: Callable[..., Sequencer], server: Any, namespace: str) -> None:
    assert list_queues(server.url, namespace) == []
    for name in ("b", "a"):
        make(name).append(1, group="g")
    assert list_queues(server.url, namespace) == ["a", "b"]


@pytest.mark.parametrize(
    ("damage", "word"),
    [
        (("DEL", "{order}"), "has no place in the order"),
        (("HDEL", "{body}", "x"), "in the order without a record"),
        (("ZREM", "{schedule}", "g"), "not in the schedule"),
        (("ZADD", "{schedule}", "1", "ghost"), "0 messages, but in the schedule"),
        (("HSET", "{leases}", "ghost", "0000000000000001me"), "lease but is not"),
        (("HSET", "{failures}", "ghost", "{}"), "failure but is not"),
        (("HSET", "{leases}", "g", "9999999999999999me"), "unreadable token, or one ahead"),
        (("SET", "{clock}", "1"), "ahead of the clock"),
        (("HSET", "{body}", "x", "1234567890123456abcd[1]"), "has stamp and attempts"),
        (("SET", "{prefix}surprise", "1"), "unknown key"),
    ],
)
def test_the_check_of_invariants_finds_what_is_broken(
    seq: Sequencer, link: Link, namespace: str, damage: tuple[str, ...], word: str
) -> None:
    keys = shard_keys(namespace, "jobs", 0)
    seq.append(1, group="g", id="x")
    assert check_invariants(link, [keys]) == []
    places = {"order": keys.order("g"), "body": keys.body("g"), "prefix": keys.prefix}
    for name in ("schedule", "leases", "failures", "clock"):
        places[name] = getattr(keys, name)
    command, *words = damage
    link.command(command, *[word.format_map(places) if word[:2] in NAMED else word for word in words])
    assert any(word in problem for problem in check_invariants(link, [keys]))
    everything = [key for key in link.command("KEYS", "*") if key.startswith(b"{" + namespace.encode())]
    link.command("DEL", *everything)


def test_get_says_what_is_known(make: Callable[..., Sequencer]) -> None:
    seq = make(max_attempts=2, backoff=30, dead_letter_on=("KeyError",))
    seq.append("x", group="g", id="x", headers={"k": "v"})
    seq.append("y", group="g", id="y")

    def state(name: str = "x") -> tuple[Any, ...] | None:
        found = seq.get("g", name)
        return (found.state, found.attempts, found.error and found.error.type) if found else None

    assert (state(), state("y"), state("z")) == (("due", 0, None), ("behind", 0, None), None)
    seq.pause("g")
    assert state() == ("paused", 0, None)
    seq.unpause("g")
    with seq.claim() as lease:
        lease.nack(next(iter(lease)), ValueError("no"))
    assert (state(), state("y")) == (("waiting", 1, "ValueError"), ("behind", 0, None))
    seq.resume("g")
    with seq.claim() as lease:
        lease.park(next(iter(lease)), "why")
    assert (state(), state("y")) == (("parked", 1, "Park"), ("parked", 0, None))
    seq.resume("g")
    with seq.claim() as lease:
        lease.nack(next(iter(lease)), KeyError("gone"))
    assert state() == ("dead", 1, "KeyError")
    seen: list[Any] = []
    seq.consume(lambda message: seen.append(message.body), until_empty=True)
    assert state("y") == ("handled", 0, None)
    seq.redrive("g")
    found = seq.get("g", "x")
    assert found is not None
    assert found.message is not None
    assert (found.message.body, found.message.headers, found.message.redriven) == ("x", {"k": "v"}, True)
    seq.consume(lambda message: seen.append(message.body), until_empty=True)
    assert seen == ["y", "x"]


WRONG: dict[str, Callable[[Sequencer], Any]] = {
    "a list as a state": lambda seq: seq.groups(["due"]),  # type: ignore[arg-type]
    "a dict as a state": lambda seq: seq.groups({}),  # type: ignore[arg-type]
    "no id": lambda seq: seq.get("g", None),  # type: ignore[arg-type]
    "no group": lambda seq: seq.explain(None),  # type: ignore[arg-type]
    "bytes as an id": lambda seq: seq.cancel("g", b"x"),  # type: ignore[arg-type]
    "a fraction as a group": lambda seq: seq.pause(5.5),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("call", WRONG.values(), ids=WRONG)
def test_a_wrong_argument_is_not_taken_for_damaged_data(seq: Sequencer, call: Callable[[Sequencer], Any]) -> None:
    seq.append(1, group="g", id="a")
    with pytest.raises((ConfigurationError, InvalidMessage)):
        call(seq)


@pytest.mark.parametrize("error", [ValueError("mine"), LookupError("mine"), StopConsuming("mine"), KeyboardInterrupt()])
def test_an_error_of_the_caller_is_not_taken_for_damaged_data(seq: Sequencer, error: BaseException) -> None:
    def items() -> Iterator[dict[str, Any]]:
        yield {"body": 1, "group": "g"}
        raise error

    with pytest.raises(type(error)) as caught:
        seq.append_many(items())
    assert caught.value is error
    seq.append(1, group="g")
    with pytest.raises(type(error)) as caught, seq.claim():
        raise error
    assert caught.value is error
