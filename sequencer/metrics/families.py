"""What metrics there are, each declared once, and how a collector fills them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from itertools import accumulate
from typing import Any, ClassVar, NamedTuple

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from ..values.durations import RUN_BOUNDS_S
from ..values.version import VERSION

KINDS: dict[str, Any] = {
    "counter": CounterMetricFamily,
    "gauge": GaugeMetricFamily,
    "histogram": HistogramMetricFamily,
}


class Metric(NamedTuple):
    name: str
    kind: str
    help: str
    label: str = ""
    """Beside `queue` and `namespace`."""
    words: Collection[str] = ()
    """That this label may have."""
    is_of_queue: bool = True

    @property
    def labels(self) -> tuple[str, ...]:
        return (*(("queue", "namespace") if self.is_of_queue else ()), *filter(None, [self.label]))

    def family(self) -> Any:
        """Without samples."""
        return KINDS[self.kind](self.name, self.help, labels=self.labels)


BUILD_INFO = Metric("sequencer_build_info", "gauge", "Version of sequencer.", "version", is_of_queue=False)


class TableCollector(Collector, ABC):
    """Fills the metrics of a table."""

    METRICS: ClassVar[Sequence[Metric]]

    def describe(self) -> Iterable[Any]:
        """Nothing is asked for that."""
        return [one.family() for one in self.METRICS]

    def collect(self) -> Iterable[Any]:
        found = {one.name: one.family() for one in self.METRICS}
        found[BUILD_INFO.name].add_metric([VERSION], 1)
        self._fill(found)
        return [one for one in found.values() if one.samples]

    @abstractmethod
    def _fill(self, found: dict[str, Any]) -> None:
        """Add what there is to the families, by their names."""


def add_runs(family: Any, labels: Sequence[str], runs: Sequence[float]) -> None:
    """Counts by RUN_BOUNDS_S, and behind them the sum."""
    bounds = [*map(floatToGoString, RUN_BOUNDS_S), "+Inf"]
    family.add_metric(labels, [*zip(bounds, accumulate(runs[:-1]), strict=True)], runs[-1])


def exposition(collector: Collector) -> tuple[bytes, str]:
    """The text that Prometheus reads, and its type."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    return generate_latest(registry), CONTENT_TYPE_LATEST
