"""Clients of the asyncio package aiozk for tests, for the fixture `aiozk_client`."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from simzk.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from aiozk import ZKClient


class AiozkClients:
    """Opens clients of aiozk on any event loop, so that it does not matter which plugin runs asynchronous tests.

    Args:
        hosts: of the servers, with a chroot if there is one.

    Raises:
        ConfigError: aiozk is not installed.
    """

    def __init__(self, hosts: str) -> None:
        try:
            import aiozk
        except ImportError as missing:
            raise ConfigError("the fixture needs aiozk, which is not installed", right="pip install aiozk") from missing
        self._new_client = aiozk.ZKClient
        self._servers, slash, path = hosts.partition("/")
        self._chroot = slash + path

    @asynccontextmanager
    async def __call__(self, **options: object) -> AsyncIterator[ZKClient]:
        """Return a context manager that starts a client, and closes it.

        Args:
            options: of `aiozk.ZKClient`, such as `session_timeout` in seconds. A `chroot` is below that of the server.
        """
        chroot = self._chroot + str(options.pop("chroot", ""))
        client = self._new_client(self._servers, chroot=chroot or None, **options)
        await client.start()
        try:
            yield client
        finally:
            await client.close()
