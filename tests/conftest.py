"""Hypothesis profiles of the whole suite, and a count of the tests that need Java."""

from __future__ import annotations

import logging
import os
import re
import shutil
import socket
import subprocess
import warnings
from functools import cache
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, settings

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

JAVA_MINIMUM = 17
NEEDS_JAVA = "needs java"  # a property that the marker gives to a test's reports, wherever they are made

# Under "ci" examples are drawn alike in every run, so that a red run is the change's doing; "thorough" looks longer.
settings.register_profile("dev", max_examples=50, deadline=None)
settings.register_profile("ci", max_examples=100, deadline=None, derandomize=True, print_blob=True)
settings.register_profile(
    "thorough", max_examples=2000, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
# A planted mistake is to be caught, not to be explained: its examples are not shrunk.
settings.register_profile("canaries", settings.get_profile("ci"), phases=[Phase.explicit, Phase.generate])
IN_CI = os.environ.get("CI", "").lower() == "true"
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if IN_CI else "dev"))


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


# Tests that README's command leaves out, by the beginning of their node ids; tests/README.md says what runs where.
SLOW = (
    "tests/test_kafka_security.py",
    "tests/kafka/client_requests/test_recorded_failures.py::test_answers_are_those_of_real_brokers[0.",
    "tests/kafka/client_requests/test_recorded_failures.py::test_answers_are_those_of_real_brokers[1.",
    "tests/kafka/client_requests/test_recorded_failures.py::test_answers_are_those_of_real_brokers[2.",
    "tests/kafka/client_requests/test_recorded_failures.py::test_answers_are_those_of_real_brokers[3.4",
    "tests/test_kafka_server_recorded.py::test_answers_over_tcp_are_those_of_real_brokers[0.8",
    "tests/test_kafka_server_recorded.py::test_answers_over_tcp_are_those_of_real_brokers[0.11",
    "tests/test_kafka_server_recorded.py::test_answers_over_tcp_are_those_of_real_brokers[1.",
    "tests/test_kafka_server_recorded.py::test_answers_over_tcp_are_those_of_real_brokers[2.",
    "tests/test_kafka_server_recorded.py::test_answers_over_tcp_are_those_of_real_brokers[3.",
    "tests/kafka/client_requests/test_records.py::test_what_consumers_read",
    "tests/kafka/client_requests/test_transactions_under_faults.py",
    "tests/kafka/coordinator/test_assignments",
    "tests/test_kafka_consumers.py::test_a_static",
    "tests/test_kafka_transactions_read.py::test_librdkafka",
    "tests/test_kafka_consumers.py::test_two_members",
    "tests/test_kafka_server_records.py::test_an_old_consumer",
    "tests/test_kafka_server_records.py::test_kafka_python",
    "tests/test_kafka_server_records.py::test_librdkafka_reads_what_it_sent[gzip]",
    "tests/test_kafka_server_records.py::test_librdkafka_reads_what_it_sent[none]",
    "tests/test_kafka_server_records.py::test_librdkafka_reads_what_it_sent[snappy]",
    "tests/test_kafka_server_records.py::test_librdkafka_reads_what_it_sent[zstd]",
    "tests/canaries/test_canaries.py::test_the_mistake",
    "tests/canaries/test_canaries.py::test_without",
    "tests/canaries/test_swarm_mistakes.py::test_the_swarm",
    "tests/canaries/test_swarm_mistakes.py::test_without",
    "tests/cli/test_interrupt",
    "tests/cli/test_kafka.py",
    "tests/cli/test_layout_import",
    "tests/cli/test_run.py",
    "tests/cli/test_run_html",
    "tests/cli/test_run_plan",
    "tests/cli/test_run_side_by_side",
    "tests/cli/test_serve.py",
    "tests/cli/test_serve_ensemble",
    "tests/cli/test_serve_kafka",
    "tests/cli/test_serve_tls",
    "tests/cli/test_sweep",
    "tests/conformance/real_kafka/test_real",
    "tests/conformance/real_kafka/test_record.py::test_real_brokers",
    "tests/conformance/real_kafka/test_recorded_tool_output",
    "tests/conformance/test_columnar",
    "tests/conformance/test_data_directory",
    "tests/conformance/test_differential",
    "tests/conformance/test_ensemble",
    "tests/conformance/test_foreign_clients",
    "tests/conformance/test_java_suites",
    "tests/conformance/test_kafka_suite",
    "tests/conformance/test_kazoo_in_memory",
    "tests/conformance/test_kazoo_suite",
    "tests/conformance/test_local_sessions",
    "tests/conformance/test_odd_directories",
    "tests/conformance/test_odd_texts",
    "tests/conformance/test_ports",
    "tests/conformance/test_quota_totals",
    "tests/conformance/test_reconfig",
    "tests/conformance/test_admin_requests",
    "tests/conformance/test_closing_order",
    "tests/conformance/test_sweep_order",
    "tests/conformance/test_word_orders",
    "tests/conformance/test_word_whitelist",
    "tests/conformance/test_zk_shell_suite",
    "tests/conformance/test_zoo_cfg",
    "tests/jvm/test_hash_map",
    "tests/jvm/test_scala_columns",
    "tests/kafka/columnar/test_backing",
    "tests/kafka/columnar/test_cluster_story",
    "tests/kafka/columnar/test_kazoo",
    "tests/kafka/columnar/test_layout_cluster",
    "tests/kafka/columnar/test_table_story",
    "tests/kafka/columnar/test_text_sizes",
    "tests/kafka/columnar/test_odd_requests",
    "tests/kafka/protocol/test_peers",
    "tests/kafka/test_auto_rebalance",
    "tests/kafka/test_deletion_during",
    "tests/kafka/test_failed_elections",
    "tests/kafka/test_iteration_orders",
    "tests/kafka/test_operator_mistakes",
    "tests/kafka/test_plans",
    "tests/kafka/test_random_faults",
    "tests/kafka/test_replay.py::test_equality",
    "tests/kafka/test_versions",
    "tests/kafka/test_wrong_znodes",
    "tests/kafka/test_znodes_by_hand",
    "tests/load/",
    "tests/models/test_published_modules",
    "tests/models/test_replication.py::test_kip_101",
    "tests/models/test_replication.py::test_kip_320_keeps_strong",
    "tests/models/test_histories.py::test_0_10_2",
    "tests/models/test_histories.py::test_a_mistake",
    "tests/models/test_histories.py::test_a_run_is_no",
    "tests/models/test_histories.py::test_kip_320",
    "tests/models/test_histories.py::test_many",
    "tests/partitions/risk/test_unions",
    "tests/partitions/test_plan_what_if",
    "tests/partitions/test_what_if",
    "tests/pipeline/test_live",
    "tests/pipeline/test_log_stream",
    "tests/pipeline/test_masters",
    "tests/pipeline/test_report_pages",
    "tests/pipeline/test_risk",
    "tests/pipeline/test_runs",
    "tests/pipeline/test_timelines",
    "tests/pipeline/test_zookeeper_log",
    "tests/scenarios/test_bug_symptoms",
    "tests/scenarios/test_equal_histories",
    "tests/scenarios/test_found_by_seeds",
    "tests/scenarios/test_search.py::test_a_failing_plan",
    "tests/scenarios/test_search.py::test_a_search_finds",
    "tests/serve/test_settle.py::test_a_thousand",
    "tests/testing/test_failure_report.py::test_with_workers",
    "tests/conformance/test_same_user_tests",
    "tests/testing/test_factories.py::test_a_wrong_mark",
    "tests/testing/test_factories.py::test_an_address",
    "tests/testing/test_factories.py::test_the_same_tests",
    "tests/testing/test_factories.py::test_workers",
    "tests/properties/test_kafka_fuzz",
    "tests/report/test_browser",
    "tests/test_guides.py::test_the_page",
)
SLOW_BUT_FOR_SOME_RELEASES = (
    "tests/kafka/client_requests/test_admin_requests",
    "tests/kafka/client_requests/test_recorded_answers",
    "tests/kafka/client_requests/test_recorded_groups",
    "tests/kafka/client_requests/test_recorded_transactions",
    "tests/kafka/test_acknowledged_records.py::test_no_acknowledged",
    "tests/kafka/test_imported_cluster",
    "tests/kafka/test_readers",
    "tests/kafka/test_reassign_tool",
    "tests/kafka/test_recorded_story",
    "tests/kafka/test_reference_controller",
    "tests/kafka/test_replay.py::test_a_recording_without_actions",
    "tests/kafka/test_replay.py::test_a_replayed_step",
    "tests/kafka/test_stories",
    "tests/kafka/test_truncation",
)
FAST_RELEASES = ("0.8.2", "3.9")
REAL_SERVERS = ("tests/conformance/",)  # with the mark `java`: they start a real server or a Java client


def is_slow(nodeid: str) -> bool:
    """Return whether a test runs only with the slow ones.

    >>> is_slow("tests/load/test_load.py::test_znodes"), is_slow("tests/wire/test_jute.py::test_numbers")
    (True, False)
    """
    if nodeid.startswith(SLOW_BUT_FOR_SOME_RELEASES):
        return "[" in nodeid and not any(release in nodeid for release in FAST_RELEASES)
    return nodeid.startswith(SLOW)


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
        if is_slow(item.nodeid):
            item.add_marker(pytest.mark.slow)
        if item.get_closest_marker("java") is not None and item.nodeid.startswith(REAL_SERVERS):
            item.add_marker(pytest.mark.real_servers)
        unset = [mark.args[0] for mark in item.iter_markers("by_hand") if mark.args[0] not in os.environ]
        if unset:
            item.add_marker(pytest.mark.skip(reason=f"by hand, where {unset[0]} is set: tests/README.md"))
        elif item.get_closest_marker("java") is not None:
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
