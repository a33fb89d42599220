"""The board for Grafana and the example rules name metrics and labels that the collectors have."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sequencer.metrics import QueueCollector
from sequencer.metrics.families import Metric
from sequencer.metrics.supervisor import SupervisorCollector

DOCS = Path(__file__).parents[2] / "docs"
KNOWN = {one.name: one for one in (*QueueCollector.METRICS, *SupervisorCollector.METRICS)}
BOARD: dict[str, Any] = json.loads((DOCS / "grafana.json").read_text())
OF_BOARD = [target["expr"] for panel in BOARD["panels"] for target in panel["targets"]]
OF_RULES = re.findall(r"expr: (?:\|\n)?(.*?)\n +(?:for|labels):", (DOCS / "alert-rules.yml").read_text(), re.DOTALL)


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


def labels_in(expression: str) -> set[str]:
    return {label for names in re.findall(r"by \((.*?)\)", expression) for label in names.split(", ")}


def test_they_name_what_is_exported() -> None:
    assert len(OF_BOARD) > 20
    assert len(OF_RULES) == 12
    assert [wrong for one in OF_BOARD + OF_RULES for wrong in wrong_in(one)] == []
    known = {label for one in KNOWN.values() for label in one.labels} | {"le", "instance"}
    assert {label for one in OF_BOARD + OF_RULES for label in labels_in(one)} <= known
    assert [*wrong_in('rate(sequencer_tries_total[5m]) / sequencer_groups{state="stuck"}')] == [
        "sequencer_tries_total",
        "sequencer_groups: state=stuck",
    ]


def test_the_board_shows_every_metric() -> None:
    shown = {metric for one in OF_BOARD for name in re.findall(r"sequencer_\w+", one) if (metric := metric_of(name))}
    assert shown == {*KNOWN.values()}


def test_the_panels_of_the_board_do_not_overlap() -> None:
    places = [
        (x, y)
        for panel in BOARD["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(places) == len({*places})
    assert max(x for x, _ in places) < 24


def test_prometheus_takes_the_rules() -> None:
    if not (promtool := shutil.which("promtool")):
        pytest.skip("promtool (Debian: prometheus) is not installed")
    words = [promtool, "check", "rules", str(DOCS / "alert-rules.yml")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
