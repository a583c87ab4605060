"""ZooKeeper's own Java client, by its command line (zkCli), against `simzk.ZooKeeperServer`."""

from __future__ import annotations

import subprocess

import pytest

import simzk
from tests.conformance.real_zookeeper import class_path, java

CLIENT_S = 120
SCRIPT = """\
create /java one
get -s -w /java
set /java two
get /java
create -e /java/ephemeral
create -s /java/sequential- three
ls -w /java
ls -R /java
create -s /java/sequential- four
stat /java
getAcl /java
addauth digest user:secret
setAcl /java auth:user:secret:cdrwa
getAcl /java
whoami
version
delete /java
deleteall /java
ls /
get /java
quit
"""


@pytest.mark.java
@pytest.mark.timeout(CLIENT_S + 30)
def test_zkcli_connects_reads_writes_and_watches() -> None:
    with simzk.ZooKeeperServer(clock="wall") as server:
        main = [*java(), "-Xmx256m", "-cp", class_path(), "org.apache.zookeeper.ZooKeeperMain", "-server", server.hosts]
        done = subprocess.run(main, input=SCRIPT, capture_output=True, text=True, timeout=CLIENT_S, check=False)
        with server.lock:
            assert list(server.server.tree.walk())[-1][0].startswith("/zookeeper")
            server.server.check()
    said = done.stdout + done.stderr
    for wanted in (
        "Created /java\n",
        "WatchedEvent state:SyncConnected type:NodeDataChanged path:/java",
        "WatchedEvent state:SyncConnected type:NodeChildrenChanged path:/java",
        "dataVersion = 0",
        "dataVersion = 1",
        "two\n",
        "Created /java/sequential-0000000001",
        "Created /java/sequential-0000000002",
        "[ephemeral, sequential-0000000001]",
        "numChildren = 3",
        "'world,'anyone\n: cdrwa",
        "'digest,'user:",
        "Node not empty: /java",
        "[zookeeper]",
        "Node does not exist: /java",
    ):
        assert wanted in said, f"{wanted!r} is missing in:\n{said}"
