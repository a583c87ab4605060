"""Hypothesis profiles of the whole suite, and a count of the tests that need Java."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import cache

import pytest
from hypothesis import HealthCheck, settings

JAVA_MINIMUM = 17
NEEDS_JAVA = "needs java"  # a property that the marker gives to a test's reports, wherever they are made

# Under "ci" examples are drawn alike in every run, so that a red run is the change's doing; "thorough" looks longer.
settings.register_profile("dev", max_examples=50, deadline=None)
settings.register_profile("ci", max_examples=100, deadline=None, derandomize=True, print_blob=True)
settings.register_profile(
    "thorough", max_examples=2000, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
IN_CI = os.environ.get("CI", "").lower() == "true"
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if IN_CI else "dev"))


@cache
def java_version() -> int | None:
    """The major version of the `java` on PATH, or None where there is none."""
    java = shutil.which("java")
    if java is None:
        return None
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(found.group(1)) if found else None


def why_no_java() -> str | None:
    version = java_version()
    if version is None:
        return f"needs Java {JAVA_MINIMUM} or newer, and there is no java on PATH"
    if version < JAVA_MINIMUM:
        return f"needs Java {JAVA_MINIMUM} or newer, and the java on PATH is {version}"
    return None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    reason = why_no_java()
    if config.pluginmanager.hasplugin("xdist"):
        # A Spark session takes seconds to start: all that need one run in one worker, under `--dist loadgroup`.
        for item in items:
            if "spark" in getattr(item, "fixturenames", ()) or item.path.name == "test_sweep.py":
                item.add_marker(pytest.mark.xdist_group("spark"))
    for item in items:
        if item.get_closest_marker("java") is not None:
            item.user_properties.append((NEEDS_JAVA, True))
            if reason is not None:
                item.add_marker(pytest.mark.skip(reason=reason))


class JavaCount:
    """Counts, where the reports arrive, which tests that need Java ran and which did not."""

    def __init__(self) -> None:
        self.ran: set[str] = set()
        self.did_not_run: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        # The report's keywords hold names of tests, classes and folders beside those of markers.
        if NEEDS_JAVA not in dict(report.user_properties):
            return
        if report.skipped and not hasattr(report, "wasxfail"):
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            self.did_not_run[report.nodeid] = reason
        elif report.when == "call":
            self.ran.add(report.nodeid)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.did_not_run:
            reason = next(iter(self.did_not_run.values()))
            missing = len(self.did_not_run)
            terminalreporter.write_line(f"{missing} tests that need Java did not run: {reason}", red=IN_CI)
        elif self.ran:
            terminalreporter.write_line(f"{len(self.ran)} tests that need Java ran")

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if IN_CI and self.did_not_run and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(JavaCount(), "simzk-java-count")
