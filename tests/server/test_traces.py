"""Traces: headers that name one travel with a message and make no conflict; spans, with OpenTelemetry's SDK."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from sequencer import AsyncSequencer, EmbeddedServer, Message, Sequencer, traces
from sequencer.errors import IdConflict, InvalidBody
from sequencer.traces import instrument
from tests.support.handling import Make, fail

from ..support.changed_script import changed_script
from ..support.examples import examples
from ..support.refused import refused

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


def compared(seq: Sequencer, count: int) -> Counter[tuple[bool, bool]]:
    """Random pairs under one id: whether they are the same but for the trace, and whether the second is a duplicate."""
    chance, found = random.Random(7), Counter[tuple[bool, bool]]()
    for at in range(count):
        one, another = content(chance), content(chance)
        pair = one, one if chance.random() < 0.5 else another
        about = [{"body": body, "headers": headers | chance.choice(TRACES)} for body, headers in pair]
        first, second = ({"group": str(at % 50), "id": at, **each} for each in about)
        _ = seq.append(**first) if at % 2 else seq.append_many([first])
        try:
            is_duplicate = bool(seq.append(**second).duplicate)
        except IdConflict:
            is_duplicate = False
        found[orjson.dumps(pair[0]) == orjson.dumps(pair[1]), is_duplicate] += 1
    return found


@pytest.mark.slow
def test_a_repeat_from_another_trace_is_a_duplicate_and_other_content_a_conflict(seq: Sequencer) -> None:
    found = compared(seq, count := examples(6000))
    assert found.keys() == {(True, True), (False, False)}
    assert min(found.values()) > count // 5


def test_where_traces_are_compared_repeats_are_conflicts(seq: Sequencer) -> None:
    with changed_script("append", "(ends or 0) - 1", "-1"):
        assert compared(seq, 100)[True, False] > 20


def test_the_trace_comes_back_with_a_message_that_dies_moves_or_runs_again(make: Make) -> None:
    seq = make(history_window=60, history_bodies=True, on_failure="dead_letter", max_attempts=1)
    sent = {str(at): {**trace, "own": "x"} for at, trace in enumerate(TRACES)}
    for id, headers in sent.items():
        seq.append("x", group=id, id=id, headers=headers, delay=100)
        assert [one.headers for one in seq.peek(id)] == [headers]
        seq.reschedule(id, id=id, delay=0)
    seq.consume(fail, until_empty=True)
    assert {one.message.id: one.message.headers for one in seq.dead()} == sent
    seq.redrive(everything=True)
    seen = dict[str, dict[str, str]]()
    seq.consume(lambda message: seen.update({message.id: message.headers}), until_empty=True)
    assert seen == sent
    again = seq.rerun("2", "2")
    assert seq.rerun("2", "2").duplicate
    assert seq.peek("2")[0].headers.items() >= sent["2"].items()
    assert seq.append("x", group="2", id=again.id, headers={"own": "x", "sequencer-rerun-of": "2"}).duplicate


def test_the_same_id_twice_in_one_call_over_several_shards(make: Make) -> None:
    """Where a first look at all shards decides."""
    items = [{"body": 1, "group": "g", "id": "a", "headers": trace} for trace in TRACES]
    receipt = make(shards=3).append_many([*items, *({"body": 1, "group": str(n)} for n in range(9))])
    assert (receipt.appended, receipt.duplicates) == (10, 3)


class Bench:
    """A traced queue, and the spans that ended."""

    def __init__(self, seq: Sequencer) -> None:
        self.seq, self._exporter, self.provider = seq, InMemorySpanExporter(), TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        instrument(seq, self.provider)

    def spans(self, name: str) -> list[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if span.name == f"{name} jobs"]

    def handled(self, handler: Any = None, **options: Any) -> list[ReadableSpan]:
        self.seq.consume(handler, until_empty=True, **options)
        return self.spans("process")

    def within(self, name: str) -> Any:
        return self.provider.get_tracer("app").start_as_current_span(name)


@pytest.fixture
def traced(make: Make) -> Iterator[Bench]:
    bench = Bench(make(backoff=0.0, max_attempts=2, group_by="user"))
    yield bench
    bench.provider.shutdown()


def ids(context: Any) -> tuple[int, int] | None:
    return context and (context.trace_id, context.span_id)


def origin(span: ReadableSpan) -> tuple[Any, list[Any]]:
    """Its parent, and what it links to."""
    return ids(span.parent), [ids(link.context) for link in span.links]


def ignore(_: object) -> None:
    pass


async def ignore_awaited(_: Message) -> None:
    await asyncio.sleep(0)


@pytest.mark.parametrize(("handler", "options"), [(ignore, {}), (ignore, {"concurrency": 3}), (ignore_awaited, {})])
def test_a_first_attempt_is_a_child_of_who_appended(traced: Bench, handler: Any, options: Any) -> None:
    for _ in range(2):
        with traced.within("request") as request:
            receipt = traced.seq.append({"user": 7}, id="a", headers={"own": "x"})
    assert receipt.duplicate, "a repeat from another trace"
    (process,), (append, repeat) = traced.handled(handler, **options), traced.spans("append")
    assert origin(repeat) == (ids(request.get_span_context()), [])
    assert origin(process) == (ids(append.context), [])
    assert (append.kind, process.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    common = {"messaging.system": "sequencer", "messaging.destination.name": "jobs", "messaging.message.id": "a"}
    sent = {"messaging.operation.name": "append", "messaging.operation.type": "send"}
    done = {"messaging.operation.name": "process", "messaging.operation.type": "process"}
    assert append.attributes == common | sent
    assert process.attributes == common | done | {"sequencer.group": ("7",), "sequencer.attempt": 1}


def test_on_an_event_loop_too(traced: Bench, server: EmbeddedServer) -> None:
    async def run() -> None:
        async with AsyncSequencer("jobs", server.url, namespace=traced.seq.options.namespace) as other:
            instrument(other, traced.provider)
            await other.append(1, group=8)
            await other.append_many([{"body": 1, "group": 8}])
            await other.consume(ignore_awaited, until_empty=True)

    asyncio.run(run())
    appends: list[Any] = [(ids(span.context), []) for span in traced.spans("append")]
    assert [origin(span) for span in traced.spans("process")] == appends
    assert len(appends) == 2


def test_later_attempts_and_what_waited_long_link_and_a_failure_shows(
    traced: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    traced.seq.append({"user": 7}, id="a")
    first, second = traced.handled(lambda message: fail(message) if message.attempt == 1 else None)
    assert (first.status.status_code, [event.name for event in first.events]) == (StatusCode.ERROR, ["exception"])
    assert second.status.status_code is StatusCode.UNSET
    monkeypatch.setattr(traces, "CHILD_S", 0.0)
    traced.seq.append({"user": 7}, id="b")
    late, (append, other) = traced.handled(ignore)[-1], traced.spans("append")
    links = [(ids(append.context), []), (None, [ids(append.context)]), (None, [ids(other.context)])]
    assert [origin(span) for span in (first, second, late)] == links


def test_a_batch_links_to_all_who_appended(traced: Bench) -> None:
    traced.seq.append_many([{"user": 7}, {"body": {"user": 7}, "group": 7, "headers": {"a": "b"}}])
    traced.seq.append({"user": 7})
    traced.seq.handler(batch=10)(ignore)
    (process,), (many, one) = traced.handled(), traced.spans("append")
    counts = [(span.attributes or {})["messaging.batch.message_count"] for span in (many, process)]
    assert counts == [2, 3]
    assert origin(process) == (None, [ids(many.context), ids(many.context), ids(one.context)])


def test_what_has_no_trace_and_what_is_refused(make: Make, traced: Bench) -> None:
    seq = make()
    instrument(seq)  # without a provider nothing is sent
    seq.append(1, group="g")
    assert seq.peek("g")[0].headers == {}
    assert [origin(span) for span in traced.handled(ignore)] == [(None, [])]
    with refused(InvalidBody, "headers_invalid"):
        traced.seq.append({"user": 7}, headers=["x"])  # type: ignore[arg-type]
