"""What collectors say of queues and consumers, on a real server; board and rules in docs/ name what is there."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sequencer import EmbeddedServer, InlineSteps, Message, Sequencer
from sequencer.errors import ConfigurationError
from sequencer.metrics import QueueCollector
from sequencer.metrics.families import Metric, exposition
from sequencer.metrics.supervisor import SupervisorCollector
from sequencer.settings.options import ConsumerOptions
from sequencer.values.durations import RUN_BOUNDS_S
from sequencer.values.pools import OutboxBacklog, PoolNumbers
from tests.support.handling import Make, fail

from ..support.refused import refused

DOCS = Path(__file__).parents[2] / "docs"
KNOWN = {one.name: one for one in (*QueueCollector.METRICS, *SupervisorCollector.METRICS)}
NO_ENDS = dict.fromkeys(("died", "killed", "recycled"), 0)
POOL = PoolNumbers("jobs", "n", 2, {"running": 2}, NO_ENDS, 0, [1.0] * 17, OutboxBacklog(3, 1.5, 0))
OF_POOL = SupervisorCollector(lambda: [POOL])


def samples(collector: QueueCollector) -> dict[tuple[Any, ...], float]:
    """Name and words of each sample but the namespace, and its value."""
    found = [sample for family in collector.collect() for sample in family.samples]
    return {
        (one.name, *(word for name, word in sorted(one.labels.items()) if name != "namespace")): one.value
        for one in found
    }


@pytest.fixture
def collector(server: EmbeddedServer, namespace: str) -> Any:
    made = QueueCollector(redis=server.url, namespace=namespace)
    yield made
    made.close()


def test_what_happened_to_messages_and_what_is_there(make: Make, collector: QueueCollector) -> None:
    seq = make(max_attempts=1)
    seq.append_many({"body": n, "group": f"g{n}"} for n in range(6))
    seq.pause("g5")
    seq.consume(lambda message: fail(message) if message.body >= 4 else None, until_empty=True)
    seq.append(1, group="g0", delay=60)
    found = samples(collector)
    totals = ("messages_appended_total", "attempts_failed_total", "groups_parked_total")
    assert [found[f"sequencer_{name}", "jobs"] for name in totals] == [7, 1, 1]
    assert found["sequencer_messages_total", "handled", "jobs"] == 4
    states = {state: found["sequencer_groups", "jobs", state] for state in ("waiting", "parked", "paused", "due")}
    assert states == {"waiting": 1, "parked": 1, "paused": 1, "due": 0}
    gauges = ("backlog_messages", "queue_up", "oldest_due_seconds")
    assert [found[f"sequencer_{name}", "jobs"] for name in gauges] == [3, 1, 0]
    seq.unpause("g5")
    found = samples(collector)
    assert min(found[f"sequencer_oldest_{name}_seconds", "jobs"] for name in ("due", "head")) > 0


@pytest.mark.slow
def test_labels_are_words_of_closed_lists_for_ten_thousand_groups_as_for_ten(
    make: Make, collector: QueueCollector
) -> None:
    seq, series = make(), []
    for count in (10, 10_000):
        seq.append_many({"body": 1, "group": str(n), "id": str(n)} for n in range(count))
        series.append({*samples(collector)})
    assert series[0] == series[1]
    assert samples(collector)["sequencer_backlog_messages", "jobs"] == pytest.approx(10_000, rel=0.01)
    families = [*collector.collect(), *OF_POOL.collect()]
    assert {family.name for family in families} == {name.removesuffix("_total") for name in KNOWN}
    for family in families:
        metric = KNOWN.get(family.name) or KNOWN[f"{family.name}_total"]
        for sample in family.samples:
            assert {*sample.labels} - {"le"} == {*metric.labels}
            assert metric.label in ("", "version") or sample.labels[metric.label] in metric.words


def test_a_server_that_is_away_and_a_queue_that_was_deleted(
    make: Make, collector: QueueCollector, namespace: str
) -> None:
    appended, up = ("sequencer_messages_appended_total", "jobs"), ("sequencer_queue_up", "jobs")
    away = samples(QueueCollector(["jobs"], "redis://127.0.0.1:1", namespace=namespace))
    assert (away[up], appended in away) == (0, False)
    seq = make()
    seq.append(1, group="g")
    assert up in samples(collector)
    seq.delete()
    assert up not in samples(collector)
    make().append(1, group="g")
    samples(collector)  # notices that it is another one
    assert samples(collector)[appended] == 1
    with refused(ConfigurationError, "name_invalid"):
        QueueCollector(["a b"])


def test_prometheus_takes_texts_and_rules(make: Make, collector: QueueCollector) -> None:
    make().append(1, group="g")
    texts = [exposition(one)[0] for one in (collector, OF_POOL)]
    assert texts[1].count(b"sequencer_handler_duration_seconds_bucket") == len(RUN_BOUNDS_S) + 1
    assert b'le="+Inf",namespace="n",queue="jobs"} 16.0' in texts[1]
    if not (promtool := shutil.which("promtool")):
        pytest.skip("promtool (Debian: prometheus) is not installed")
    for words, text in (*((["metrics"], text) for text in texts), (["rules", str(DOCS / "alert-rules.yml")], b"")):
        done = subprocess.run([promtool, "check", *words], input=text, capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, b"")


def metric_of(name: str) -> Metric | None:
    return KNOWN.get(name) or KNOWN.get(re.sub(r"_(bucket|sum|count)$", "", name))


def wrong_in(expression: str) -> Iterator[str]:
    """Names of metrics that nobody exports, and words of labels that they do not have."""
    for name, matchers in re.findall(r"(sequencer_\w+)(?:\{(.*?)\})?", expression):
        if (metric := metric_of(name)) is None:
            yield name
            continue
        for label, word in re.findall(r'(\w+)!?=~?"(.*?)"', matchers):
            if label not in metric.labels or (label == metric.label and word not in metric.words):
                yield f"{name}: {label}={word}"
    known = {"le", "instance", *(label for metric in KNOWN.values() for label in metric.labels)}
    yield from (name for by in re.findall(r"by \((.*?)\)", expression) for name in by.split(", ") if name not in known)


def test_board_and_rules_name_what_is_exported() -> None:
    panels = json.loads((DOCS / "grafana.json").read_text())["panels"]
    board = [one["expr"] for panel in panels for one in panel["targets"]]
    text = (DOCS / "alert-rules.yml").read_text()
    rules = re.findall(r"expr: (?:\|\n)?(.*?)\n +(?:for|labels):", text, re.DOTALL)
    assert [wrong for one in board + rules for wrong in wrong_in(one)] == []
    assert {metric_of(name) for one in board for name in re.findall(r"sequencer_\w+", one)} == {*KNOWN.values()}
    assert len(rules) == text.count("expr:") > 0
    control = 'sum by (group) (rate(sequencer_tries_total[5m])) / sequencer_groups{state="stuck"}'
    assert [*wrong_in(control)] == ["sequencer_tries_total", "sequencer_groups: state=stuck", "group"]


async def ignore_awaited(_: Message) -> None:
    await asyncio.sleep(0)


def fail_last(message: Message) -> None:
    if message.body == 5:
        fail(message)


def ignore_steps(_: Message, steps: InlineSteps) -> None:
    for name in ("charge", "ship"):
        steps.run(name, lambda: 1)


def declare_batches(seq: Sequencer) -> None:
    seq.handler(batch=10)(lambda batch: None)


def declare_steps(seq: Sequencer) -> None:
    for name in ("charge", "ship"):
        seq.step(name=name)(lambda message: None)


@pytest.mark.parametrize(
    ("handler", "options", "count"),
    [
        (fail_last, {}, 7),
        (fail_last, {"concurrency": 3}, 7),
        (ignore_awaited, {}, 6),
        (ignore_steps, {}, 6),
        (declare_batches, {}, 3),
        (declare_steps, {}, 6),
    ],
)
def test_each_call_of_a_handler_counts_once(make: Make, handler: Any, options: Any, count: int) -> None:
    """Of each attempt, batch, or pass over steps, in each kind of consumer."""
    seq = make(backoff=0.0, max_attempts=2, on_failure="drop")
    seq.append_many({"body": n, "group": str(n % 3)} for n in range(6))
    given = handler(seq) if handler in (declare_batches, declare_steps) else handler
    consumer = seq.consumer(given, ConsumerOptions(until_empty=True, **options))
    consumer.run()
    *counts, seconds = consumer.runs
    assert (len(counts), round(sum(counts)), seconds > 0) == (len(RUN_BOUNDS_S) + 1, count, True)
