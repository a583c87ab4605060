"""The numbers in the text form that Prometheus reads, as the real server's metrics provider writes them (§5).

Rules of this module:
  - every family that a standalone 3.9.5 tells of is here, under its name, of its type and with its labels; a family in
    which nothing ever happens here has no samples, as a real one's before anything happens;
  - numbers are written as Java writes doubles.

Source: PrometheusMetricsProvider, the client library's TextFormat, recorded from a standalone 3.9.5.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

from simzk.wire import monitoring

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from simzk.wire.statistics import Report
    from simzk.zookeeper.summary import Summary

_LEAST_PLAIN, _LEAST_LARGE = 1e-3, 1e7
_SHARES, _MORE_SHARES = (0.5,), (0.5, 0.9, 0.99)
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
"""What is counted by the first name of a path, or of learners that there are none of."""

Labels = tuple[tuple[str, str], ...]


class Sample(NamedTuple):
    """One number."""

    name: str
    labels: Labels
    value: float


class Family(NamedTuple):
    """Samples that are told together; `help` is their name where it is empty."""

    name: str
    kind: str
    samples: list[Sample]
    help: str = ""


def text_of(families: Iterable[Family], names: frozenset[str] | None = None) -> str:
    """Families as text; where `names` are asked for, only samples of these names, with the families that have any."""
    lines: list[str] = []
    for name, kind, samples, about in families:
        wanted = samples if names is None else [sample for sample in samples if sample.name in names]
        if names is None or wanted:
            lines += [f"# HELP {name} {about or name}", f"# TYPE {name} {kind}"]
            lines += [f"{sample.name}{_labels(sample.labels)} {java_double(sample.value)}" for sample in wanted]
    return "\n".join([*lines, ""])


def families_of(report: Report) -> Iterator[Family]:
    """What a server tells of itself."""
    for kind, told in (("gauge", monitoring.gauges(report)), ("counter", monitoring.counters(report))):
        for name, value in told.items():
            if not isinstance(value, str):
                yield Family(name, kind, [Sample(name, (), value)])
    keyed: dict[str, list[Sample]] = {name: [] for name in _UNUSED}
    for name, summary in monitoring.summaries(report).items():
        key, _, family = name.partition("_")
        shares = _MORE_SHARES if monitoring.has_percentiles(name) else _SHARES
        if family in _KEYED:
            keyed[family] += _summary(family, (("key", key),), summary, shares)
        else:
            yield Family(name, "summary", _summary(name, (), summary, shares))
    for name, kind in _UNUSED.items():
        yield Family(name, kind, keyed[name])


def values(report: Report) -> dict[str, str | int | float]:
    """What mntr and the command monitor tell, by key: each provider of metrics tells its numbers in its own form."""
    if report.provider == "default":
        return monitoring.values(report)
    told: dict[str, str | int | float] = dict(monitoring.texts(report))
    if report.provider == "prometheus":
        for family in (*families_of(report), *report.process):
            for sample in family.samples:
                told[sample.name + _labels(sample.labels).replace(",}", "}")] = float(sample.value)
    return told


def _summary(name: str, labels: Labels, summary: Summary, shares: Iterable[float]) -> list[Sample]:
    samples: list[Sample] = []
    for share in shares:
        value = float(summary.percentile(share)) if summary.count else float("nan")
        samples.append(Sample(name, (*labels, ("quantile", str(share))), value))
    count, total = Sample(f"{name}_count", labels, summary.count), Sample(f"{name}_sum", labels, summary.total)
    return [*samples, count, total]


def _labels(labels: Labels) -> str:
    """The labels of a sample; the library leaves a comma behind the last."""
    if not labels:
        return ""
    escaped = ((name, value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")) for name, value in labels)
    return "{" + "".join(f'{name}="{value}",' for name, value in escaped) + "}"


def java_double(value: float) -> str:
    """A number as Java's Double.toString writes it.

    >>> [java_double(value) for value in (0, 2.5, 12345678, 0.0001, float("nan"), 1795278955.097)]
    ['0.0', '2.5', '1.2345678E7', '1.0E-4', 'NaN', '1.795278955097E9']
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    value = float(value)
    if value == 0 or _LEAST_PLAIN <= abs(value) < _LEAST_LARGE:
        return repr(value)
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    first, rest = digits[0], "".join(map(str, digits[1:])) or "0"
    return f"{'-' if sign else ''}{first}.{rest}E{exponent + len(digits) - 1}"
