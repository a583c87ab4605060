"""Plays Kafka's own tests of its tools on simulated clusters, each class in a process of its own.

Rules of this module:
  - `kafka_stand_ins` has classes that stand before Kafka's: a broker that a test makes is one of `simzk kafka`, with
    the settings that the test gave it. What a test reads in a broker's memory is asked of that broker by requests;
  - variants of a test for KRaft are left out (`Only.java`). A test that wants what exists only inside a broker is
    skipped, with that reason.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple
from xml.etree import ElementTree

from tests.conformance.java_suites.jars import HERE, KAFKA, class_path

if TYPE_CHECKING:
    from pathlib import Path

CLUSTER = f"{sys.executable} -m simzk kafka --broker-ids {{ids}} --version {{version}} --config {{config}} --json"
"""The command that runs one cluster, with placeholders that `ExternalCluster.java` fills."""
HELD_CLUSTER = "curl -sN --data-binary @{{config}} '{url}/clusters?hold=true&broker_ids={{ids}}&version={{version}}'"
"""The same on a `simzk clusters` that runs; curl ends with the cluster, and the cluster with curl."""
CLASS_S = 1200
TEST_S = 180
_OPENED = ("lang", "util", "util.concurrent", "net", "util.stream", "util.regex")


class Outcomes(NamedTuple):
    """Results of a class: the number of tests that passed, the failures, reasons of skipped tests, and JUnit's time."""

    passed: int
    failed: list[str]
    skipped: list[str]
    taken_s: float = 0.0


def play(name: str, folder: Path, without: str = "", cluster: str = CLUSTER) -> Outcomes:
    """Run the tests of a class.

    Args:
        name: the class.
        folder: an empty folder for reports, and for settings and output of the clusters.
        without: a pattern of methods that are left out.
        cluster: the command that runs one cluster.
    """
    java = ["java", "-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dhttp.keepAlive=false"]
    opened = [f"--add-opens=java.base/java.{part}=ALL-UNNAMED" for part in _OPENED]
    kinds = ("testable", "lifecycle")
    limits = [f"-Djunit.jupiter.execution.timeout.{kind}.method.default={TEST_S}s" for kind in kinds]
    options = [
        f"-Dlog4j.configuration=file:{HERE / 'kafka_log4j.properties'}",
        "-Djunit.jupiter.extensions.autodetection.enabled=true",
        f"-Djava.io.tmpdir={folder}",
    ]
    asked = ["execute", "--disable-banner", "--details=none", "--reports-dir", str(folder), "--select-class", name]
    command = [*java, *opened, *limits, *options, "-cp", class_path(KAFKA, ours=True)]
    command += ["org.junit.platform.console.ConsoleLauncher", *asked]
    command += ["--exclude-methodname", without] if without else []
    environment = {**os.environ, "KAFKA_CMD": cluster, "KAFKA_LOG": str(folder), "PYTHONPYCACHEPREFIX": str(folder)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed simzk is compiled once, not for each cluster
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=folder, timeout=CLASS_S, check=False, env=environment
    )
    report = folder / "TEST-junit-jupiter.xml"
    assert report.exists(), f"{name}: {done.stdout[-2000:]}{done.stderr[-1000:]}"
    return _read(report)


def _read(report: Path) -> Outcomes:
    suite = ElementTree.parse(report).getroot()
    outcomes = Outcomes(0, [], [], float(suite.get("time", "0").replace(",", "")))
    for case in suite.iter("testcase"):
        failure = next((found for kind in ("failure", "error") if (found := case.find(kind)) is not None), None)
        skipped = case.find("skipped")
        if failure is not None:
            outcomes.failed.append(f"{case.get('name')}: {(failure.get('message') or '')[:300]}")
        elif skipped is None:
            outcomes = outcomes._replace(passed=outcomes.passed + 1)
        elif "KRaft variant" not in (text := f"{skipped.text or ''}{skipped.get('message') or ''}"):
            outcomes.skipped.append(f"{case.get('name')}: {text.strip()[:300]}")
    return outcomes
