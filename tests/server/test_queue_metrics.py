"""What a collector says of queues, on a real server."""

from __future__ import annotations

import shutil
import subprocess
from typing import Any

import pytest

from sequencer import EmbeddedServer, Message
from sequencer.errors import ConfigurationError
from sequencer.metrics import QueueCollector
from sequencer.metrics.families import exposition
from sequencer.metrics.supervisor import SupervisorCollector
from sequencer.values.durations import RUN_BOUNDS_S
from sequencer.values.pools import OutboxBacklog, PoolNumbers
from tests.support.handling import Make

from ..support.refused import refused

NO_ENDS = dict.fromkeys(("died", "killed", "recycled"), 0)
POOL = PoolNumbers("jobs", "n", 2, {"running": 2}, NO_ENDS, 0, [1.0] * 17, OutboxBacklog(3, 1.5, 0))


def samples(collector: QueueCollector) -> dict[tuple[Any, ...], float]:
    """Name and words of each sample, and its value; without the namespace."""
    found = {}
    for family in collector.collect():
        for sample in family.samples:
            words = sorted((name, word) for name, word in sample.labels.items() if name != "namespace")
            found[(sample.name, *(word for _, word in words))] = sample.value
    return found


@pytest.fixture
def collector(server: EmbeddedServer, namespace: str) -> Any:
    made = QueueCollector(redis=server.url, namespace=namespace)
    yield made
    made.close()


def test_what_happened_to_messages_and_what_is_there(make: Make, collector: QueueCollector) -> None:
    seq = make(max_attempts=1)
    seq.append_many({"body": {"n": n}, "group": f"g{n}"} for n in range(6))
    seq.pause("g5")

    def handle(message: Message) -> None:
        if message.body["n"] >= 4:
            raise ValueError

    seq.consume(handle, until_empty=True)
    seq.append(1, group="g0", delay=60)
    found = samples(collector)
    assert found["sequencer_messages_appended_total", "jobs"] == 7
    assert found["sequencer_messages_total", "handled", "jobs"] == 4
    assert found["sequencer_attempts_failed_total", "jobs"] == 1
    assert found["sequencer_groups_parked_total", "jobs"] == 1
    states = {state: found["sequencer_groups", "jobs", state] for state in ("waiting", "parked", "paused", "due")}
    assert states == {"waiting": 1, "parked": 1, "paused": 1, "due": 0}
    assert found["sequencer_backlog_messages", "jobs"] == 3
    assert found["sequencer_queue_up", "jobs"] == 1
    assert found["sequencer_oldest_due_seconds", "jobs"] == 0
    seq.unpause("g5")
    found = samples(collector)
    assert found["sequencer_oldest_due_seconds", "jobs"] > 0
    assert found["sequencer_oldest_head_seconds", "jobs"] > 0


@pytest.mark.slow
def test_as_many_series_for_ten_thousand_groups_as_for_ten(make: Make, collector: QueueCollector) -> None:
    seq, series = make(), []
    for count in (10, 10_000):
        seq.append_many({"body": 1, "group": str(n), "id": str(n)} for n in range(count))
        series.append({*samples(collector)})
    assert series[0] == series[1]
    assert samples(collector)["sequencer_backlog_messages", "jobs"] == pytest.approx(10_000, rel=0.01)


def test_labels_are_words_of_closed_lists(make: Make, collector: QueueCollector) -> None:
    make("a").append(1, group="secret", id="secret")
    make("b").append(1, group="secret")
    families = [*collector.collect(), *SupervisorCollector(lambda: [POOL]).collect()]
    known = {one.name: one for one in (*QueueCollector.METRICS, *SupervisorCollector.METRICS)}
    assert {family.name for family in families} == {name.removesuffix("_total") for name in known}
    for family in families:
        metric = known.get(family.name) or known[f"{family.name}_total"]
        for sample in family.samples:
            assert {*sample.labels} - {"le"} == {*metric.labels}
            assert sample.labels.get("queue", "a") in ("a", "b", "jobs")
            assert metric.label in ("", "version") or sample.labels[metric.label] in metric.words


def test_a_server_that_is_away_and_a_queue_that_was_deleted(
    make: Make, collector: QueueCollector, namespace: str
) -> None:
    away = QueueCollector(["jobs"], "redis://127.0.0.1:1", namespace=namespace)
    assert samples(away)["sequencer_queue_up", "jobs"] == 0
    assert ("sequencer_messages_appended_total", "jobs") not in samples(away)
    seq = make()
    seq.append(1, group="g")
    assert ("sequencer_queue_up", "jobs") in samples(collector)
    seq.delete()
    assert ("sequencer_queue_up", "jobs") not in samples(collector)
    make().append(1, group="g")
    samples(collector)  # notices that it is another one
    assert samples(collector)["sequencer_messages_appended_total", "jobs"] == 1


def test_a_wrong_name_is_refused() -> None:
    with refused(ConfigurationError, "name_invalid"):
        QueueCollector(["a b"])


def test_the_text_is_right_for_prometheus(make: Make, collector: QueueCollector) -> None:
    make().append(1, group="g")
    texts = [exposition(one)[0] for one in (collector, SupervisorCollector(lambda: [POOL]))]
    assert texts[1].count(b"sequencer_handler_duration_seconds_bucket") == len(RUN_BOUNDS_S) + 1
    assert b'le="+Inf",namespace="n",queue="jobs"} 16.0' in texts[1]
    if not (promtool := shutil.which("promtool")):
        pytest.skip("promtool (Debian: prometheus) is not installed")
    for text in texts:
        done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
