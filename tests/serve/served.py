"""A `TcpServer` of any settings on a loop in a thread, for tests that need more than `simzk.ZooKeeperServer` offers."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from simzk.serve.admin import AdminServer
from simzk.serve.clock import Clock, StillClock
from simzk.serve.tcp import TcpServer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simzk.serve.settings import Settings


class Served:
    """A running server, and its AdminServer where the settings ask for one."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self.tcp = TcpServer(settings, clock)
        self.admin = None
        if settings.admin_port is not None:
            self.admin = AdminServer(self.tcp, settings.admin_address, settings.admin_port, settings.admin_path)
        self.port = self.tcp.port
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._ready.wait()

    @property
    def admin_port(self) -> int:
        assert self.admin is not None
        return int(self.admin.name.rpartition(":")[2])

    def _run(self) -> None:
        self._loop.run_until_complete(self._start())
        self._ready.set()
        self._loop.run_forever()
        self.tcp.stop()
        if self.admin is not None:
            self.admin.stop()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _start(self) -> None:
        await self.tcp.start()
        if self.admin is not None:
            await self.admin.start()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


@contextmanager
def served(settings: Settings, clock: Clock | None = None) -> Iterator[Served]:
    """A server that runs as long as the block."""
    running = Served(settings, clock or StillClock())
    try:
        yield running
    finally:
        running.stop()
