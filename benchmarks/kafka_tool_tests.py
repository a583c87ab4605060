"""Time of Kafka's own LeaderElectionCommandTest, whose seven tests start a cluster of three brokers each.

    SIMZK_JAVA_SUITES=FOLDER python -m benchmarks.kafka_tool_tests [--real COMMAND] [--rounds N] [--json OUT]

The clusters are those of a `simzk clusters` that runs already, of a process `simzk kafka` each, and with `--real` of a
command that runs one real cluster in the foreground: `{ids}`, `{version}` and `{config}` stand for the ids of the
brokers, the release and a file of properties, and its first line is the JSON object of `simzk kafka --json`. They take
turns. The time is that of JUnit for the class: without the start of Java. FOLDER keeps Kafka's jars, which the first
run fetches.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from benchmarks.figures import Figure, write_figures
from tests.cli.test_clusters import running
from tests.conformance.java_suites.kafka import CLUSTER, HELD_CLUSTER, play

NAME, TESTS = "LeaderElectionCommandTest", 7


def played_s(cluster: str) -> float:
    """Return how long the tests take on the clusters of a command.

    Raises:
        AssertionError: a test failed.
    """
    with tempfile.TemporaryDirectory(prefix="simzk-tool-tests-") as folder:
        outcomes = play(f"org.apache.kafka.tools.{NAME}", Path(folder), cluster=cluster)
    assert outcomes.passed == TESTS, outcomes.failed
    return outcomes.taken_s


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Measure Kafka's own LeaderElectionCommandTest.")
    parser.add_argument("--real", metavar="COMMAND", help="command of a real cluster [default: none is measured]")
    parser.add_argument("--rounds", metavar="N", type=int, default=3, help="rounds [default: 3]")
    parser.add_argument("--json", metavar="OUT", type=Path, help="file of the figures")
    asked = parser.parse_args()
    with running() as (url, _):
        commands = {"simzk clusters": HELD_CLUSTER.format(url=url), "simzk kafka": CLUSTER}
        if asked.real is not None:
            commands["real brokers"] = asked.real
        taken_s: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(asked.rounds):
            for name, command in commands.items():
                taken_s[name].append(played_s(command))
    least_s = {name: min(times) for name, times in taken_s.items()}
    figures = [Figure(f"{NAME} on {name}, least", round(seconds, 2), "s") for name, seconds in least_s.items()]
    if "real brokers" in least_s:
        share = least_s["simzk clusters"] / least_s["real brokers"]
        figures.append(Figure("simzk clusters", round(share, 3), "of the time on real brokers", at_most=0.1))
    write_figures("kafka_tool_tests", figures, {"taken_s": taken_s}, asked.json)


if __name__ == "__main__":
    main()
