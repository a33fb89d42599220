"""Traces of messages from who appends to who handles, as OpenTelemetry has them. Needs the extra `otel`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial, wraps
from typing import Any

from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind, TracerProvider, get_current_span, get_tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from .async_client import AsyncSequencer
from .client import Sequencer
from .values.batch import Batch
from .values.message import BatchReceipt, Message, Receipt
from .values.version import VERSION

CHILD_S = 60.0
"""A message whose first attempt begins within this time is handled in the trace that sent it; later it only links to
that: a trace is shown as a whole, and should end.
"""
_CONTEXT = TraceContextTextMapPropagator()


def instrument(seq: Sequencer | AsyncSequencer, tracer_provider: TracerProvider | None = None) -> None:
    """Trace what this client appends and what its consumers handle; call it once, where the client is made.

    A span `append QUEUE` (producer) is around each call of `append` and `append_many`; its context travels in the
    headers `traceparent` and `tracestate`, so a repeat from another trace is a duplicate. A span `process QUEUE`
    (consumer) is around each call of a handler, step or check: a child of the first where the first attempt begins
    within a minute, else a trace of its own that links to it, as for a batch. `tracer_provider`: OpenTelemetry's global
    one, if not given.
    """
    tracer = get_tracer("sequencer", VERSION, tracer_provider)
    fixed = {"messaging.system": "sequencer", "messaging.destination.name": seq.queue}

    @seq.around
    def process(given: Message | Batch) -> Iterator[None]:
        messages = given if isinstance(given, Batch) else [given]
        parent, links = _origin(messages)
        about: dict[str, Any] = {"sequencer.group": messages[0].group, "sequencer.attempt": messages[0].attempt}
        if isinstance(given, Batch):
            about["messaging.batch.message_count"] = len(given)
        else:
            about["messaging.message.id"] = given.id
        attributes = {**fixed, "messaging.operation.name": "process", "messaging.operation.type": "process", **about}
        name, kind = f"process {seq.queue}", SpanKind.CONSUMER
        with tracer.start_as_current_span(name, parent, kind, attributes, links):
            yield

    items: Any = seq._session.items
    make = items.make

    def make_traced(body: Any, group: Any, id: Any, score: Any, headers: Any, *rest: Any, **options: Any) -> Any:
        trace: dict[str, str] = {}
        _CONTEXT.inject(trace)
        if trace and (headers is None or isinstance(headers, Mapping)):
            headers = {**(headers or {}), **trace}
        return make(body, group, id, score, headers, *rest, **options)

    items.make = make_traced
    for name in ("append", "append_many"):
        attributes = {**fixed, "messaging.operation.name": name, "messaging.operation.type": "send"}
        span = partial(
            tracer.start_as_current_span, f"append {seq.queue}", kind=SpanKind.PRODUCER, attributes=attributes
        )
        setattr(seq, name, _within(span, getattr(seq, name), is_awaited=isinstance(seq, AsyncSequencer)))


def _within(appending: Callable[[], Any], call: Any, *, is_awaited: bool) -> Any:
    @wraps(call)
    def run(*given: Any, **options: Any) -> Any:
        with appending() as span:
            return _noted(span, call(*given, **options))

    @wraps(call)
    async def run_awaited(*given: Any, **options: Any) -> Any:
        with appending() as span:
            return _noted(span, await call(*given, **options))

    return run_awaited if is_awaited else run


def _noted(span: Span, receipt: Receipt | BatchReceipt) -> Receipt | BatchReceipt:
    if isinstance(receipt, Receipt):
        span.set_attribute("messaging.message.id", receipt.id)
    else:
        count = receipt.appended + receipt.duplicates + receipt.dropped + receipt.dead + len(receipt.refused)
        span.set_attribute("messaging.batch.message_count", count)
    return receipt


def _origin(messages: Sequence[Message]) -> tuple[Context, list[Link]]:
    """The parent of a span that handles them, and what it links to."""
    contexts = [_CONTEXT.extract(message.headers, Context()) for message in messages]
    first = messages[0]
    if len(messages) == 1 and first.attempt == 1 and time.time() - first.appended_at < CHILD_S:
        return contexts[0], []
    senders = (get_current_span(context).get_span_context() for context in contexts)
    return Context(), [Link(sender) for sender in senders if sender.is_valid]
