"""Text format of Prometheus, as the real server's metrics provider writes it (§5).

Rules of this module:
  - every family of a standalone 3.9.5 is here with its name, type and labels; a family of a part that simzk does not
    have is without samples, as a real one is at first;
  - numbers are written as Java writes doubles.

Source: PrometheusMetricsProvider, the client library's TextFormat, recorded from a standalone 3.9.5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.jvm.numbers import double_text
from simzk.wire import monitoring
from simzk.wire.monitoring import Family, Labels, Sample

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from simzk.wire.monitoring import Report
    from simzk.zookeeper.summary import Summary

_MEDIAN, _QUANTILES = (0.5,), (0.5, 0.9, 0.99)
_KEYED = ("learner_handler_qp_size", "learner_handler_qp_time_ms")
_UNUSED = {
    "ack_latency": "summary",
    "learner_handler_qp_size": "summary",
    "learner_handler_qp_time_ms": "summary",
    "quota_bytes_limit_per_namespace": "gauge",
    "quota_bytes_usage_per_namespace": "gauge",
    "quota_count_limit_per_namespace": "gauge",
    "quota_count_usage_per_namespace": "gauge",
    "quota_exceeded_error_per_namespace": "counter",
    "read_per_namespace": "summary",
    "write_per_namespace": "summary",
}
"""Families by namespace or by learner, which have no samples here."""


def text_of(families: Iterable[Family], names: frozenset[str] | None = None) -> str:
    """Return families as text; with `names`, only samples of these names and the families that have any."""
    lines: list[str] = []
    for name, kind, samples, about in families:
        selected = samples if names is None else [sample for sample in samples if sample.name in names]
        if names is None or selected:
            lines += [f"# HELP {name} {about or name}", f"# TYPE {name} {kind}"]
            lines += [f"{sample.name}{_labels(sample.labels)} {double_text(sample.value)}" for sample in selected]
    return "\n".join([*lines, ""])


def families_of(report: Report) -> Iterator[Family]:
    """Return the metric families of a server."""
    for kind, metrics in (("gauge", monitoring.gauges(report)), ("counter", monitoring.counters(report))):
        for name, value in metrics.items():
            if not isinstance(value, str):
                yield Family(name, kind, [Sample(name, (), value)])
    keyed: dict[str, list[Sample]] = {name: [] for name in _UNUSED}
    for name, summary in monitoring.summaries(report).items():
        key, _, family = name.partition("_")
        quantiles = _QUANTILES if monitoring.has_percentiles(name) else _MEDIAN
        if family in _KEYED:
            keyed[family] += _summary(family, (("key", key),), summary, quantiles)
        else:
            yield Family(name, "summary", _summary(name, (), summary, quantiles))
    for name, kind in _UNUSED.items():
        yield Family(name, kind, keyed[name])


def values(report: Report) -> dict[str, str | int | float]:
    """Return the metrics by key for mntr and the command monitor, in the form of the metrics provider."""
    if report.provider == "default":
        return monitoring.values(report)
    metrics: dict[str, str | int | float] = dict(monitoring.text_values(report))
    if report.provider == "prometheus":
        for family in (*families_of(report), *report.process):
            for sample in family.samples:
                metrics[sample.name + _labels(sample.labels).replace(",}", "}")] = float(sample.value)
    return metrics


def _summary(name: str, labels: Labels, summary: Summary, quantiles: Iterable[float]) -> list[Sample]:
    samples: list[Sample] = []
    for quantile in quantiles:
        value = float(summary.percentile(quantile)) if summary.count else float("nan")
        samples.append(Sample(name, (*labels, ("quantile", str(quantile))), value))
    count, total = Sample(f"{name}_count", labels, summary.count), Sample(f"{name}_sum", labels, summary.total)
    return [*samples, count, total]


def _labels(labels: Labels) -> str:
    """Return the labels of a sample; the client library writes a comma after the last one."""
    if not labels:
        return ""
    escaped = ((name, value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")) for name, value in labels)
    return "{" + "".join(f'{name}="{value}",' for name, value in escaped) + "}"
