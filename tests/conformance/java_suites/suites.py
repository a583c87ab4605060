"""Which classes of Java's suites are played, and which of their tests cannot end on ours as in their own process.

Rules of this module:
  - classes are left out that never ask for a lone server over TCP (those of quorums, TLS, and units), that look mostly
    into their own (watches and metrics of it), and that fail now and then on a real one too (queues in threads);
  - a test is named only where it looks into, or sets, something in the process of a server that it takes for its own.
"""

from __future__ import annotations

from tests.conformance.java_suites.jars import CURATOR, HERE, ZOOKEEPER
from tests.conformance.java_suites.play import Suite


def classes(name: str) -> tuple[str, ...]:
    """Return the lines of the list with this name beside this module."""
    return tuple((HERE / f"{name}.txt").read_text().split())


ZOOKEEPERS_OWN = Suite(
    ZOOKEEPER,
    "org.apache.zookeeper",
    classes("zookeeper"),
    ("-Dzookeeper.admin.enableServer=false",),
    ("-Dzookeeper.serverCnxnFactory=org.apache.zookeeper.server.ServersCnxnFactory",),
)

CURATORS_OWN = Suite(
    CURATOR,
    "org.apache.curator.framework",
    classes("curator"),
    ("-Dzookeeper.extendedTypesEnabled=true", "-Dcurator-dont-log-connection-problems=true"),
)

SUITES = {"zookeeper": ZOOKEEPERS_OWN, "curator": CURATORS_OWN}

# On a real server too: it writes /zookeeper/config, and nobody is super there.
FAIL_ANYWHERE = {"test.ChrootTest.testChrootWithZooKeeperPathWatcher"}
IN_THE_SERVERS_PROCESS = {
    # PrepRequestProcessor.setFailCreate
    "test.ChrootClientTest.testPathValidation",
    "test.ClientSkipACLTest.testPathValidation",
    "test.ClientTest.testPathValidation",
    # They set a property of the server that runs already.
    "test.SaslAuthDesignatedClientTest.testReadAccessUser",
    "test.SaslSuperUserTest.testOtherSuperIsSuper",
    # DataTree.getWatchCount
    "test.WatcherTest.testWatcherCount",
}
