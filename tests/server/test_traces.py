"""Spans of appends and of handlers, with OpenTelemetry's SDK, and how they hang together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from sequencer import AsyncSequencer, EmbeddedServer, Message, Sequencer, traces
from sequencer.errors import InvalidBody
from sequencer.traces import instrument
from tests.support.handling import Make

from ..support.refused import refused


class Bench:
    """A traced queue, and the spans that ended."""

    def __init__(self, seq: Sequencer) -> None:
        self.seq, self._exporter, self.provider = seq, InMemorySpanExporter(), TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        instrument(seq, self.provider)

    def spans(self, name: str) -> list[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if span.name == f"{name} jobs"]

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


@pytest.mark.parametrize(
    ("handler", "options"), [(ignore, {}), (ignore, {"concurrency": 3}), (ignore_awaited, {}), (ignore_awaited, None)]
)
def test_a_first_attempt_is_a_child_of_who_appended(
    traced: Bench, handler: Any, options: Any, server: EmbeddedServer
) -> None:
    with traced.within("request") as request:
        traced.seq.append({"user": 7}, id="a", headers={"own": "x"})
    if options is None:

        async def consume() -> None:
            async with AsyncSequencer("jobs", server.url, namespace=traced.seq.options.namespace) as other:
                instrument(other, traced.provider)
                await other.append({"user": 8}, id="b")
                await other.append_many([{"user": 8}])
                await other.consume(handler, until_empty=True)

        asyncio.run(consume())
    else:
        traced.seq.consume(handler, until_empty=True, **options)
    (append, *_), (process, *_) = traced.spans("append"), traced.spans("process")
    assert origin(append) == (ids(request.get_span_context()), [])
    assert origin(process) == (ids(append.context), [])
    assert (append.kind, process.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    common = {"messaging.system": "sequencer", "messaging.destination.name": "jobs", "messaging.message.id": "a"}
    sent = {"messaging.operation.name": "append", "messaging.operation.type": "send"}
    done = {"messaging.operation.name": "process", "messaging.operation.type": "process"}
    assert append.attributes == common | sent
    assert process.attributes == common | done | {"sequencer.group": ("7",), "sequencer.attempt": 1}
    if options is None:
        assert [len(traced.spans(name)) for name in ("append", "process")] == [3, 3]


def test_later_attempts_link_and_a_failure_shows(traced: Bench) -> None:
    traced.seq.append({"user": 7}, id="a")

    def fail_first(message: Message) -> None:
        if message.attempt == 1:
            raise KeyError("x")

    traced.seq.consume(fail_first, until_empty=True)
    (append,), (first, second) = traced.spans("append"), traced.spans("process")
    assert (first.status.status_code, [event.name for event in first.events]) == (StatusCode.ERROR, ["exception"])
    assert second.status.status_code is StatusCode.UNSET
    assert origin(first) == (ids(append.context), [])
    assert origin(second) == (None, [ids(append.context)])


def test_a_message_that_waited_long_links(traced: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "CHILD_S", 0.0)
    traced.seq.append({"user": 7})
    traced.seq.consume(ignore, until_empty=True)
    (append,), (process,) = traced.spans("append"), traced.spans("process")
    assert origin(process) == (None, [ids(append.context)])


def test_a_repeat_from_another_trace_is_a_duplicate(traced: Bench) -> None:
    for _ in range(2):
        with traced.within("request"):
            receipt = traced.seq.append({"user": 7}, id="a")
    assert receipt.duplicate
    first, _ = traced.spans("append")
    traced.seq.consume(ignore, until_empty=True)
    (process,) = traced.spans("process")
    assert origin(process) == (ids(first.context), [])


def test_a_batch_links_to_all_who_appended(traced: Bench) -> None:
    seq = traced.seq
    seq.append_many([{"user": 7}, {"body": {"user": 7}, "group": 7, "headers": {"a": "b"}}])
    seq.append({"user": 7})
    many, one = traced.spans("append")
    assert many.attributes is not None
    assert many.attributes["messaging.batch.message_count"] == 2

    @seq.handler(batch=10)
    def handle(_: object) -> None:
        pass

    seq.consume(until_empty=True)
    (process,) = traced.spans("process")
    assert process.attributes is not None
    assert process.attributes["messaging.batch.message_count"] == 3
    assert origin(process) == (None, [ids(many.context), ids(many.context), ids(one.context)])


def test_what_was_sent_without_a_trace_begins_one(make: Make) -> None:
    make().append(1, group="g")
    bench = Bench(make())
    bench.seq.consume(ignore, until_empty=True)
    (process,) = bench.spans("process")
    assert origin(process) == (None, [])


def test_without_the_sdk_nothing_is_sent(make: Callable[..., Sequencer]) -> None:
    seq = make()
    instrument(seq)
    seq.append(1, group="g")
    assert seq.peek("g")[0].headers == {}


def test_what_is_refused_is_refused_as_before(traced: Bench) -> None:
    with refused(InvalidBody, "headers_invalid"):
        traced.seq.append({"user": 7}, headers=["x"])  # type: ignore[arg-type]
