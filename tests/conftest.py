"""Hypothesis profiles of the whole suite, and a count of the tests that need Java."""

from __future__ import annotations

import logging
import os
import re
import shutil
import socket
import subprocess
import threading
import warnings
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, settings

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

JAVA_MINIMUM = 17
LONGEST_END_S = 5
NEEDS_JAVA = "needs java"  # a property that the marker gives to a test's reports, wherever they are made

# Examples are drawn alike in every run, in README's command, in CI and on a desk: a red run is the change's doing, and
# everybody sees it. "explore" draws anew each time; what it finds becomes an `@example`. "thorough" looks longer.
settings.register_profile(
    "default",
    max_examples=50,
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],  # a busy machine is no mistake of the project
)
settings.register_profile("explore", settings.get_profile("default"), max_examples=100, derandomize=False)
settings.register_profile("thorough", settings.get_profile("explore"), max_examples=2000)
# A planted mistake is to be caught, not to be explained: its examples are not shrunk.
settings.register_profile("canaries", settings.get_profile("default"), phases=[Phase.explicit, Phase.generate])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
IN_CI = os.environ.get("CI", "").lower() == "true"


class ClosedSocket(socket.socket):
    """Socket that is closed when nobody has it any more."""

    def __del__(self) -> None:
        self.close()


@pytest.fixture(scope="session", autouse=True)
def _sockets_of_kafka_python() -> Iterator[None]:
    """Let kafka-python close the sockets that it abandons.

    It does so with refused connections, and with those that it is opening when it is closed. Python reports such a
    socket when it is collected, which fails any later test.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it reads its resources with a deprecated function
        from kafka.net.inet import KafkaNetSocket

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(KafkaNetSocket, "socket", lambda _self, *kind: ClosedSocket(*kind))
        yield


@pytest.fixture(scope="module", autouse=True)
def _no_client_is_left() -> Iterator[None]:
    """Fail a module that leaves a thread of kazoo: it goes on to draw from Python's generator, in any later test."""
    yield
    left = [thread for thread in threading.enumerate() if _is_kazoo(thread)]
    for thread in left:
        thread.join(LONGEST_END_S)  # `KazooClient.stop` does not join what recipes have spawned
    alive = [thread.name for thread in left if thread.is_alive()]
    assert not alive, f"clients of kazoo were not stopped: {', '.join(alive)}"


def _is_kazoo(thread: threading.Thread) -> bool:
    """Return whether a handler of kazoo, or simzk's for it, started a thread that has not ended."""
    started: object = getattr(thread, "_target", None)
    module: str = getattr(started, "__module__", "")
    return module.startswith(("kazoo.", "simzk.serve.client_activity"))


class ErrorsOfEventLoops(logging.Handler):
    """Exceptions that asyncio caught in callbacks of any thread, which it only logs."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep an error with its traceback."""
        self.texts.append(self.format(record))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None]:
    """Fail a test in whose time a callback of an event loop, such as a server's, raised an exception."""
    errors, logger = ErrorsOfEventLoops(), logging.getLogger("asyncio")
    logger.addHandler(errors)
    try:
        yield
    finally:
        logger.removeHandler(errors)
    assert not errors.texts, "an event loop met an error:\n" + "\n".join(errors.texts)


# The mark `slow_but_for_some_releases` leaves the parameters with one of these names in README's command.
FAST_RELEASES = ("0.8.2", "3.9")
# README's command installs neither. All tests of these files are slow; without the package they are not collected.
PACKAGES_OF_SLOW_TESTS = {
    "pyspark": ("simzk/pipeline", "tests/pipeline"),
    "kio": ("tests/kafka/protocol/test_peers.py",),
}
ROOT = Path(__file__).resolve().parent.parent
REAL_SERVERS = ("tests/conformance/",)  # with the mark `java`: they start a real server or a Java client


def is_slow(item: pytest.Item) -> bool:
    """Return whether README's command leaves out this release of a test."""
    if item.get_closest_marker("slow_but_for_some_releases") is None:
        return False
    return "[" in item.nodeid and not any(release in item.nodeid for release in FAST_RELEASES)


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
        is_java = item.get_closest_marker("java") is not None
        if is_java or is_slow(item) or item.get_closest_marker("full") is not None:
            item.add_marker(pytest.mark.slow)
        if is_java and item.nodeid.startswith(REAL_SERVERS):
            item.add_marker(pytest.mark.real_servers)
        unset = [mark.args[0] for mark in item.iter_markers("by_hand") if mark.args[0] not in os.environ]
        if unset:
            item.add_marker(pytest.mark.skip(reason=f"by hand, where {unset[0]} is set: tests/README.md"))
        elif is_java:
            item.user_properties.append((NEEDS_JAVA, True))
            if reason is not None:
                item.add_marker(pytest.mark.skip(reason=reason))


class NotInstalled:
    """Leaves out files that import packages which README's command does not install."""

    def __init__(self, missing: Iterable[str]) -> None:
        self._left_out = [ROOT / path for package in missing for path in PACKAGES_OF_SLOW_TESTS[package]]

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        return any(collection_path == path for path in self._left_out) or None


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
    missing = [package for package in PACKAGES_OF_SLOW_TESTS if find_spec(package) is None]
    if IN_CI and missing and config.option.markexpr != "not slow":
        raise pytest.UsageError(f"{' and '.join(missing)} missing: the slow tests need pip install -e '.[dev]'")
    config.pluginmanager.register(NotInstalled(missing), "simzk-not-installed")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(JavaCount(), "simzk-java-count")
