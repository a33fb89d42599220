"""What history keeps: for its window, up to a 24th longer; up to its cap; nothing where it is off. Dead letters too."""

from __future__ import annotations

from typing import Any

import pytest

from sequencer.calls.operate import sweep
from sequencer.calls.settle import Ack, ack
from sequencer.settings.policy import DAY_S, Policy
from sequencer.store.ending import decode_ending, handled

from ..support.changed_script import changed_script
from ..support.shard import SECOND, Shard, item

HOUR_S = 3600.0


def end(shard: Shard, *ids: str, group: str = "g") -> None:
    """Messages that arrive, are handled at once, and say so."""
    shard.append(*[item(group, id) for id in ids])
    lease = shard.claim()[group]
    texts = [handled(1, int(member[:16]), shard.now, shard.now, "me") for member in lease.members]
    shard.run(ack(shard.keys, [Ack(group, lease.token, lease.members, True, endings=texts)]))


def kept(shard: Shard) -> dict[str, int]:
    """Group, newline, id of all that is in the history, listed or not -> when it ended, us."""
    found: dict[str, int] = {}
    for key in buckets_there(shard):
        words = shard.link.command("HGETALL", key)
        for field, value in zip(words[::2], words[1::2], strict=True):
            if field:
                found[field.decode()] = decode_ending(value).ended_ms * 1000
    return found


def buckets_there(shard: Shard) -> list[bytes]:
    """Their keys, listed or not."""
    return list(shard.link.command("KEYS", f"{shard.keys.prefix}history:*"))


def buckets(shard: Shard) -> int:
    return int(shard.link.command("ZCARD", shard.keys.histories))


def swept(shard: Shard) -> tuple[int, int]:
    passed, done = 0, None
    history = dead = 0
    while done is None or done.is_more:
        done = shard.run(sweep(shard.keys, passed))
        history, dead, passed = history + done.history, dead + done.dead, passed + done.passed
    return history, dead


def four_days(shard: Shard, *, every_s: float, each: int, window_s: float, cap: int = 10**6) -> None:
    """Messages end for four days, or for 1.4 windows if they end often. Then nothing does, and the queue is swept."""
    shard.rules(Policy(history_window=window_s, history_cap=cap, dedup_window=0))
    number, until = 0, shard.now + (4 * DAY_S if every_s > HOUR_S else 1.4 * window_s) * SECOND
    while shard.now < until:
        end(shard, *[f"{number}.{n}" for n in range(each)])
        number += 1
        found = kept(shard)
        oldest_us = shard.now - window_s * 25 / 24 * SECOND
        assert min(found.values()) >= oldest_us - 1000, "something is older than the window and a 24th"
        assert len(found) <= cap + each, "there is more than the cap, and the last batch"
        if len(found) < cap - cap / 24 - each and number * every_s > window_s:
            wanted = min(int(window_s / every_s), number) * each
            assert len(found) >= wanted, "the window is not kept"
        shard.later(every_s)
    assert shard.run(sweep(shard.keys)).is_more is False
    shard.later(window_s * 26 / 24)
    swept(shard)
    assert kept(shard) == {}, "a queue at rest is not swept"
    assert buckets(shard) == 0
    assert shard.link.command("HGET", shard.keys.memory, "history:open") is None


@pytest.mark.parametrize(
    ("every_s", "each", "window_s", "cap"),
    [(0.26 * HOUR_S, 1, DAY_S, 10**6), (2 * HOUR_S, 20, 3 * DAY_S, 480), (3 * HOUR_S, 5, HOUR_S, 100)],
)
def test_four_days_of_messages(shard: Shard, every_s: float, each: int, window_s: float, cap: int) -> None:
    four_days(shard, every_s=every_s, each=each, window_s=window_s, cap=cap)


CONTROLS = {
    "cleaned only at writes": (
        "sweep",
        "clean_history(history and history.window or 0, history and history.cap or 0)",
        "0, {}",
    ),
    "cleaned only when a bucket begins": ("ack", "open.is_over or now >= open.due", "open.is_over"),
    "no cap": ("ack", "or total > room", ""),
    "a bucket that never ends": ("ack", "or math.abs(now - began) >= open.span", "and not name"),
    "dropped a whole window early": ("ack", "now - ends >= window", "now - ends >= 0"),
}


@pytest.mark.parametrize("name", CONTROLS)
def test_a_history_that_is_not_cleaned_in_time_is_found(shard: Shard, name: str) -> None:
    script, old, new = CONTROLS[name]
    # A bucket begins each 1.04 hours then, and is to be dropped between two of those moments.
    every_s, each = (0.26 * HOUR_S, 2) if "begins" in name else (2 * HOUR_S, 20)
    with changed_script(script, old, new), pytest.raises(AssertionError):
        four_days(shard, every_s=every_s, each=each, window_s=DAY_S, cap=96 if name == "no cap" else 10**6)
    shard.link.command("DEL", shard.keys.histories, shard.keys.memory, *buckets_there(shard))


def test_a_window_that_changes_still_drops_a_part_at_a_time(shard: Shard) -> None:
    shard.rules(Policy(history_window=48 * HOUR_S, history_cap=2400))
    for number in range(30):
        end(shard, *[f"a{number}.{n}" for n in range(50)])
        shard.later(HOUR_S)
    before = len(kept(shard))
    shard.rules(Policy(history_window=20 * HOUR_S, history_cap=2400))
    shard.later(20 * HOUR_S / 24)
    end(shard, "b")
    after = kept(shard)
    assert 0 < before - len(after) < before / 2
    assert all(at >= shard.now - 24 * HOUR_S * SECOND for at in after.values())
    shard.rules(Policy(history_window=20 * HOUR_S, history_cap=480))
    for number in range(20):
        end(shard, *[f"c{number}.{n}" for n in range(10)])
    assert 480 - 100 <= len(kept(shard)) <= 480, "a bucket of the former cap has up to 100"
    assert "g\nb" in kept(shard), "the oldest go"


def test_idle_days_drop_no_more_than_what_is_too_old(shard: Shard) -> None:
    shard.rules(Policy(history_window=DAY_S))
    end(shard, "a")
    shard.later(20 * HOUR_S)
    end(shard, "b")
    shard.later(20 * HOUR_S)
    end(shard, "c")
    assert sorted(kept(shard)) == ["g\nb", "g\nc"]
    shard.later(-30 * 86_400)  # the server's clock was set back
    end(shard, "d")
    end(shard, "e")
    assert buckets(shard) <= 4
    assert {"g\nc", "g\nd", "g\ne"} <= {*kept(shard)}


def test_a_history_that_is_turned_off_is_swept(shard: Shard) -> None:
    shard.rules(Policy(history_window=DAY_S))
    end(shard, "a", "b")
    shard.link.command("HSET", shard.keys.policy, "history_us", "0")
    end(shard, "c")
    assert len(kept(shard)) == 2
    assert swept(shard) == (2, 0)
    assert kept(shard) == {}
    shard.link.command("HSET", shard.keys.policy, "history_us", str(SECOND * 60))
    end(shard, "d")
    assert list(kept(shard)) == ["g\nd"]


def test_contents_go_with_their_bucket(shard: Shard) -> None:
    """What is dropped is whole: no content stays behind its end, nor an end behind its content."""
    shard.rules(Policy(history_window=DAY_S, history_bodies=True, dedup_window=0))
    for n in range(40):
        end(shard, f"m{n}")
        shard.later(HOUR_S)
    there = sorted(buckets_there(shard))
    ends = [key for key in there if not key.endswith(b":bodies")]
    assert there == sorted([*ends, *(key + b":bodies" for key in ends)])
    assert buckets(shard) == len(ends) <= 26
    for key in ends:
        assert {*shard.link.command("HKEYS", key)} - {b""} == {*shard.link.command("HKEYS", key + b":bodies")}
    shard.later(26 / 24 * DAY_S)
    swept(shard)
    assert buckets_there(shard) == []


def test_an_acknowledgement_that_is_repeated_writes_nothing_twice(shard: Shard) -> None:
    """Not into a later bucket either, nor over what became of the same id since."""
    shard.rules(Policy(history_window=DAY_S, history_cap=24, dedup_window=0))
    shard.append(item("g", "a"), item("g", "b"), item("g", "c"))
    lease = shard.claim()["g"]
    entry = Ack("g", lease.token, lease.members[:2], False, endings=["f1 5 1 1\nme", "f1 6 1 1\nme"])
    call = ack(shard.keys, [entry])
    shard.run(call)
    before = shard.dump()
    shard.later(2 * HOUR_S)
    shard.run(ack(shard.keys, [entry]))
    after = shard.dump()
    assert {name: value for name, value in after.items() if b"histor" in name} == {
        name: value for name, value in before.items() if b"histor" in name
    }
    more = Ack("g", lease.token, lease.members, False, endings=["f1 5 1 1\nx", "f1 6 1 1\nx", "f1 7 1 1\nme"])
    shard.run(ack(shard.keys, [more]))
    assert len(kept(shard)) == 3
    assert buckets(shard) == 2


def test_what_was_replaced_while_it_was_handled_has_not_finished(shard: Shard) -> None:
    shard.rules(Policy(history_window=DAY_S))
    shard.append(item("g", "a"), item("g", "b"))
    lease = shard.claim()["g"]
    shard.append(item("g", "a", body="2"), on_conflict="replace")
    texts = ["f1 5 1 1\nme", "f1 6 1 1\nme"]
    shard.run(ack(shard.keys, [Ack("g", lease.token, lease.members, True, endings=texts)]))
    (bucket,) = buckets_there(shard)
    values = {name: decode_ending(shard.link.command("HGET", bucket, f"g\n{name}")).outcome for name in "ab"}
    assert values == {"a": "replaced", "b": "finished"}
    assert shard.ids("g") == ["a"]


def test_a_bucket_is_a_hash_table_from_its_first_message_on(shard: Shard) -> None:
    """In the packed form each write would go through all that are there."""
    shard.rules(Policy(history_window=DAY_S))
    end(shard, "a")
    (bucket,) = buckets_there(shard)
    assert shard.link.command("OBJECT", "ENCODING", bucket) == b"hashtable"


@pytest.mark.parametrize(
    ("ended", "wanted"),
    [
        ("", ("", None, "me", "of the failure", "ValueError: no \u00e9")),
        ("d3 5 1 2\nyou", ("", 5, "you", "of the failure", "ValueError: no \u00e9")),
        ("d3 5 1 2\nyou\nmail\nstep a failed", ("", 5, "you", "mail", "step a failed\nValueError: no \u00e9")),
    ],
)
def test_what_is_dropped_says_its_error_besides(shard: Shard, ended: str, wanted: tuple[Any, ...]) -> None:
    shard.rules(Policy(history_window=DAY_S))
    shard.append(item("g", "a"))
    failure = '{"type":"ValueError","message":"no \u00e9\\nmore","owner":"me","kind":"of the\\tfailure","attempt":3}'
    shard.nack(shard.claim()["g"], None, ending="drop", failure=failure.encode(), ended=ended, attempts=3)
    (bucket,) = buckets_there(shard)
    found = decode_ending(shard.link.command("HGET", bucket, "g\na"))
    assert (found.outcome, found.attempts) == ("dropped", 3)
    assert ("", found.began_ms, found.consumer, found.kind, found.note) == wanted


def bury(shard: Shard, id: str, kind: str = "ValueError") -> None:
    shard.append(item(id, id))
    shard.nack(
        shard.claim()[id], None, ending="dead", failure=b'{"member":"","type":"%s","message":"no"}' % kind.encode()
    )


def test_dead_letters_are_swept_the_oldest_first_but_none_with_an_open_question(shard: Shard) -> None:
    shard.rules(Policy(dead_window=10 * HOUR_S))
    for number in range(8):
        bury(shard, str(number), "StepUnknown" if number in (0, 2) else "ValueError")
        shard.later(HOUR_S)
    assert swept(shard) == (0, 0)
    shard.later(6 * HOUR_S)  # number 4 died 10 hours ago
    assert swept(shard) == (0, 3)
    names = [name[16:].decode().partition("\n")[2] for name in shard.link.command("ZRANGE", shard.keys.dead, 0, -1)]
    assert names == ["0", "2", "5", "6", "7"]
    shard.rules(Policy(dead_window=10 * HOUR_S, dead_cap=3))
    assert swept(shard) == (0, 2)
    names = [name[16:].decode().partition("\n")[2] for name in shard.link.command("ZRANGE", shard.keys.dead, 0, -1)]
    assert names == ["0", "2", "7"]
    assert shard.total("swept") == 5
    shard.rules(Policy(dead_window=10 * HOUR_S, dead_cap=1))
    assert swept(shard) == (0, 1), "two questions are more than the cap, and stay"
    assert shard.link.command("HLEN", shard.keys.dead_letters) == 2


def test_many_dead_letters_are_swept_in_pages_past_those_that_stay(shard: Shard) -> None:
    shard.rules(Policy(dead_window=HOUR_S))
    names = [f"{n:016}g\n{n}" for n in range(350)]
    for n, name in enumerate(names):
        kind = "StepUnknown" if n < 120 else "ValueError"
        shard.link.command("ZADD", shard.keys.dead, shard.now, name)
        shard.link.command("HSET", shard.keys.dead_letters, name, f'1\n{{"type":"{kind}"}}\n{n:016}00000[1]')
    shard.later(2 * HOUR_S)
    assert swept(shard) == (0, 230)
    assert shard.link.command("ZCARD", shard.keys.dead) == shard.link.command("HLEN", shard.keys.dead_letters) == 120
