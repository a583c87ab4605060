"""Pages of the public names, whose signatures and docstrings mkdocstrings reads from the source."""

from __future__ import annotations

from docs_site.markdown import page

_ZOOKEEPER = (
    "simzk.ZooKeeper",
    "simzk.ZooKeeperServer",
    "simzk.patch",
    "simzk.simulation.fault_verbs.FaultVerbs",
    "simzk.simulation.fault_verbs.Which",
    "simzk.simulation.request_faults.FaultRule",
    "simzk.serve.verbs.EnsembleVerbs",
    "simzk.serve.request_recorder.Request",
)
_KAFKA = (
    "simzk.KafkaCluster",
    "simzk.KafkaServer",
    "simzk.BrokerTiming",
    "simzk.History",
    "simzk.Event",
    "simzk.TopicPartition",
    "simzk.LeaderAndIsr",
    "simzk.ReplicaAssignment",
    "simzk.replay",
    "simzk.ReplayReport",
    "simzk.StepReport",
)
_FIXTURES = (
    "zookeeper",
    "zookeeper_server",
    "kazoo_client",
    "patched_kazoo",
    "aiozk_client",
    "kafka_cluster",
    "kafka_server",
)
_ERRORS = (
    "simzk.SimzkError",
    "simzk.ConfigError",
    "simzk.ScenarioError",
    "simzk.LayoutError",
    "simzk.ZnodeError",
    "simzk.RecordingError",
)
_TESTING = (
    "wait_until",
    "ZooKeeperTestCase",
    "KafkaClusterTestCase",
    "ZooKeeperMachine",
    "KafkaClusterMachine",
    "MACHINE_SETTINGS",
    "assert_recovered",
    "heal",
    "cluster_shapes",
    "ClusterShape",
    "topics",
    "TopicShape",
    "faults",
    "fault_schedules",
    "Fault",
    "inflict",
    "play",
)


def documented(*names: str) -> str:
    """Return the directives that document names, each with its own heading."""
    return "\n\n".join(f"::: {name}" for name in names)


def zookeeper_page() -> str:
    """Return the page of the fake ZooKeeper."""
    what = "The fake ZooKeeper, in memory and on TCP, and what a test can do to clients, requests and servers."
    return page("ZooKeeper", what, documented(*_ZOOKEEPER))


def kafka_page() -> str:
    """Return the page of the simulated cluster."""
    what = "The simulated Kafka cluster, its history, and replays of recordings."
    return page("Kafka cluster", what, documented(*_KAFKA))


def testing_page() -> str:
    """Return the page of fixtures, factories of fixtures, and tools for tests."""
    return page(
        "Tools for tests",
        "Fixtures of the pytest plugin, factories of fixtures, and the names of `simzk.testing`.",
        "## Fixtures",
        documented(*(f"simzk.testing.plugin.{name}" for name in _FIXTURES)),
        "## Factories of fixtures",
        documented(*(f"simzk.pytest.{name}" for name in ("zookeeper", "kazoo_client", "kafka_cluster"))),
        "## Waiting, base classes, state machines and strategies",
        documented(*(f"simzk.testing.{name}" for name in _TESTING)),
        "## Linearizability",
        documented("simzk.linearizability"),
    )


def errors_page() -> str:
    """Return the page of the errors."""
    what = "What simzk raises for invalid input. What ZooKeeper refuses is kazoo's own exception."
    return page("Errors", what, documented(*_ERRORS))
