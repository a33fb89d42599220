"""Headers that name a trace travel with a message, and a repeat from another trace is a duplicate."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from sequencer import Sequencer
from sequencer.errors import IdConflict

from ..support.changed_script import changed_script
from ..support.examples import examples

TRACES: list[dict[str, str]] = [
    {},
    {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
    {"traceparent": "00-1af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate": "a=1,b=2"},
    {"tracestate": 'a\n["b"]'},
]
NASTY = ["", "\n", 'x\n{"traceparent":"y"}', '"traceparent"', "]\n{}", "\\n", "\u2028", "é" * 50, " "]


def content(chance: random.Random) -> tuple[Any, dict[str, str]]:
    """A body and headers, of few kinds: two of them are often the same."""
    text = chance.choice(NASTY)
    body: Any = chance.choice([1, None, text, [text], {"traceparent": text}, {text: [{}]}, orjson.Fragment(b"[1,\n2]")])
    return body, chance.choice([{}, {}, {"a": text}, {"a": text, "traceparent-of": "b"}])


def plain(value: Any) -> Any:
    return orjson.loads(orjson.dumps(value))


def wrong_pairs(seq: Sequencer, count: int) -> tuple[int, int, int]:
    """How many random pairs under one id are equal, how many differ, and of how many the second one is not what it
    should be: a duplicate where body and headers are the same but for the trace, else a conflict.
    """
    chance, wrong, equal = random.Random(7), 0, 0
    pairs = []
    for _ in range(count):
        first = content(chance)
        pairs.append((first, first if chance.random() < 0.5 else content(chance)))
    for at, (one, _) in enumerate(pairs):
        headers = {**one[1], **chance.choice(TRACES)}
        if at % 2:
            seq.append(one[0], group=str(at % 50), id=at, headers=headers)
        else:
            seq.append_many([{"body": one[0], "group": str(at % 50), "id": at, "headers": headers}])
    for at, (one, other) in enumerate(pairs):
        is_equal = plain(one) == plain(other) and [*one[1]] == [*other[1]]
        try:
            given: Any = {"group": str(at % 50), "id": at, "headers": {**chance.choice(TRACES), **other[1]}}
            is_duplicate = bool(seq.append(other[0], **given).duplicate)
        except IdConflict:
            is_duplicate = False
        equal += is_equal
        wrong += is_equal != is_duplicate
    return equal, count - equal, wrong


@pytest.mark.slow
def test_a_repeat_from_another_trace_is_a_duplicate_and_other_content_a_conflict(seq: Sequencer) -> None:
    count = examples(6000)
    equal, different, wrong = wrong_pairs(seq, count)
    assert wrong == 0
    assert min(equal, different) > count // 5


def test_where_traces_are_compared_repeats_are_conflicts(seq: Sequencer) -> None:
    with changed_script("append", "(ends or 0) - 1", "-1"):
        assert wrong_pairs(seq, 100)[2] > 20


def test_the_trace_comes_back_with_the_headers(seq: Sequencer) -> None:
    for at, trace in enumerate(TRACES):
        seq.append(at, group=str(at), headers={**trace, "own": "x"})
        (message,) = seq.peek(str(at))
        assert (message.body, message.headers) == (at, {**trace, "own": "x"})
    seen = dict[int, dict[str, str]]()
    seq.consume(lambda message: seen.update({message.body: message.headers}), until_empty=True)
    assert seen == {at: {**trace, "own": "x"} for at, trace in enumerate(TRACES)}


def test_it_stays_with_a_message_that_dies_moves_or_runs_again(make: Callable[..., Sequencer]) -> None:
    seq = make(history_window=60, history_bodies=True, on_failure="dead_letter", max_attempts=1)
    trace = TRACES[2]
    seq.append("x", group="g", id="1", headers=trace, delay=100)
    seq.reschedule("g", id="1", delay=0)

    def fail(_: object) -> None:
        raise ValueError

    seq.consume(fail, until_empty=True)
    (letter,) = seq.dead()
    assert letter.message.headers == trace
    seq.redrive(everything=True)
    seen = list[dict[str, str]]()
    seq.consume(lambda message: seen.append(message.headers), until_empty=True)
    again = seq.rerun("g", "1")
    assert seq.rerun("g", "1").duplicate
    (message,) = seq.peek("g")
    assert seen == [trace]
    assert message.headers.items() >= trace.items()
    assert seq.append("x", group="g", id=again.id, headers={"sequencer-rerun-of": "1"}).duplicate


def test_the_same_id_twice_in_one_call(make: Callable[..., Sequencer]) -> None:
    """Also where a first look at all shards decides."""
    seq = make(shards=3)
    items = [{"body": 1, "group": "g", "id": "a", "headers": trace} for trace in TRACES]
    others = [{"body": 1, "group": str(n)} for n in range(9)]
    receipt = seq.append_many([*items, *others])
    assert (receipt.appended, receipt.duplicates) == (10, 3)
