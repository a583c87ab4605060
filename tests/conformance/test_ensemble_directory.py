"""A real ensemble boots from what ours wrote, and ours from what a real one did."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from kazoo.client import KazooClient

from simzk import ZooKeeperServer
from tests.conformance.data_directory_story import Dump, dump_by_kazoo
from tests.conformance.real_ensemble import SERVERS, RealEnsemble

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.slow, pytest.mark.java]


def dump(hosts: str) -> Dump:
    """The tree but for what each server writes itself (§2.4)."""
    return {path: node for path, node in dump_by_kazoo(hosts).items() if path != "/zookeeper/config"}


def write(client: KazooClient, name: str) -> None:
    client.ensure_path(f"/{name}/deep")
    client.create(f"/{name}/seq-", b"x", sequence=True)
    client.set(f"/{name}", name.encode())
    client.delete(f"/{name}/deep")


def test_a_real_ensemble_boots_from_what_ours_wrote(tmp_path: Path) -> None:
    with ZooKeeperServer(servers=3, data_directory=tmp_path) as ours:
        for name, server, lost in (("one", 1, 3), ("two", 2, 1), ("three", 2, 3)):
            client = ours.client(hosts=ours.ensemble.hosts(server))
            client.start()
            write(client, f"{name}-by-all")
            client.stop()
            ours.ensemble.stop(lost)
            client = ours.client(hosts=ours.ensemble.hosts(2))
            client.start()
            write(client, f"{name}-by-two")  # the third gets it when it starts, the last time it does not
            client.stop()
            if name != "three":
                ours.ensemble.start(lost)
        expected = dump(ours.ensemble.hosts(2))
    with RealEnsemble(boot_from=tmp_path) as real:
        assert dump(real.hosts) == expected
        for server in SERVERS:
            found = re.search(r"zk_digest_mismatches_count\t(\d+)", real.word(server, b"mntr"))
            assert found is not None
            assert found.group(1) == "0"


def test_ours_boots_from_what_a_real_ensemble_wrote(tmp_path: Path) -> None:
    with RealEnsemble() as real:
        leader = real.leader
        killed = next(server for server in SERVERS if server != leader)
        rest = ",".join(f"127.0.0.1:{port}" for server, port in real.ports.items() if server != killed)
        client = KazooClient(hosts=rest)
        client.start()
        write(client, "one")
        real.kill(killed)
        write(client, "two")
        client.stop()
        client.close()
        expected = dump(rest)
        zxid = int(next(line for line in real.word(leader, b"srvr").splitlines() if "Zxid" in line)[8:], 16)
        real.copy_data(tmp_path)
    with ZooKeeperServer(servers=3, data_directory=tmp_path) as ours:
        assert ours.server.zxid >> 32 == (zxid >> 32) + 1
        for server in SERVERS:
            assert dump(ours.ensemble.hosts(server)) == expected
