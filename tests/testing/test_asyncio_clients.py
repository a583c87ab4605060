"""The fixture `aiozk_client`: asyncio clients of the test's server."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import pytest

import simzk
from simzk.testing.asyncio_clients import AiozkClients

pytest_plugins = ["pytester"]

if TYPE_CHECKING:
    from collections.abc import Sequence


def test_clients_of_one_server_see_each_other(
    aiozk_client: AiozkClients, zookeeper_server: simzk.ZooKeeperServer
) -> None:
    async def story() -> tuple[bytes, Sequence[str], bool]:
        async with aiozk_client() as other:
            async with aiozk_client(session_timeout=5) as worker:
                await worker.create("/worker", data=b"ready", ephemeral=True)
                data, names = await other.get_data("/worker"), await other.get_children("/")
            return data, sorted(names), await other.exists("/worker")

    assert asyncio.run(story()) == (b"ready", ["worker", "zookeeper"], False)
    assert len(zookeeper_server.server.sessions) == 0


def test_the_chroot_of_the_hosts_is_used(zookeeper_server: simzk.ZooKeeperServer) -> None:
    client = zookeeper_server.client()
    client.start()
    client.create("/app/part", makepath=True)

    async def story() -> None:
        async with AiozkClients(f"{zookeeper_server.hosts}/app")(chroot="/part") as inside:
            await inside.create("/a", data=b"x")

    asyncio.run(story())
    assert client.get("/app/part/a")[0] == b"x"


def test_without_the_package_it_says_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aiozk", None)
    with pytest.raises(simzk.ConfigError, match="needs aiozk, which is not installed; expected pip install aiozk"):
        AiozkClients("127.0.0.1:2181")


def test_without_the_package_a_test_fails_with_one_line(
    monkeypatch: pytest.MonkeyPatch, pytester: pytest.Pytester
) -> None:
    monkeypatch.setitem(sys.modules, "aiozk", None)
    pytester.makepyfile("def test_it(aiozk_client): pass")
    run = pytester.runpytest_inprocess("-p", "no:randomly", "-p", "no:xdist")
    run.assert_outcomes(errors=1)
    said = str(run.stdout)
    assert "\nthe fixture needs aiozk, which is not installed; expected pip install aiozk\n" in said
    assert "asyncio_clients.py" not in said
