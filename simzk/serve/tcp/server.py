"""One ZooKeeper server on TCP ports: ports, disk writes, four-letter words and reports.

Rules of this module:
  - the ports are bound when the server is made, so a port in use is an error at once;
  - with a data directory nothing is sent before the transactions that it acknowledges are on disk; the requests of all
    connections in one turn of the loop are written together.

Source of the behaviour: NIOServerCnxnFactory, ZooKeeperServer.
"""

from __future__ import annotations

import time
from itertools import chain
from typing import TYPE_CHECKING, Literal

from simzk.serve.clock import Clock, WallClock
from simzk.serve.tcp.addresses import bind
from simzk.serve.tcp.connections import ConnectionFactory
from simzk.serve.tcp.event_loop import EventLoopServer
from simzk.serve.wire_driver import WireDriver
from simzk.wire.four_letter_words import DEFAULT_TRACE_MASK, WORDS, answer
from simzk.wire.monitoring import Report
from simzk.wire.statistics import ServerStatistics
from simzk.zookeeper.server import Server

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from simzk.serve.configuration.settings import Settings
    from simzk.serve.storage.data_directory import DataDirectory
    from simzk.serve.tcp.connections import ConnectionThrottle, TcpConnection
    from simzk.serve.verbs import EnsembleVerbs
    from simzk.wire.monitoring import Family


class TcpServer(EventLoopServer):
    """One ZooKeeper server on its ports.

    Args:
        settings: the server's configuration.
        clock: the server's time.

    Raises:
        ConfigError: it cannot listen, or its data directory cannot be used.
    """

    def __init__(self, settings: Settings, clock: Clock) -> None:
        super().__init__(clock)
        self.settings = settings
        self.directory: DataDirectory | None = None
        self._factories: list[ConnectionFactory] = []
        try:
            self._listen(settings)
            server = self._load(settings)
        except BaseException:
            for factory in self._factories:
                factory.close()
            raise
        self.use_driver(self._new_driver(server))
        first, *others = self._factories
        self.hosts, self.secure_hosts = first.name, ",".join(factory.name for factory in others)
        self.name = ",".join(factory.name for factory in self._factories)
        self.port, self.secure_port = first.port, others[0].port if others else -1
        self.statistics = ServerStatistics()
        self.throttle = self._new_throttle()
        self.trace_mask = DEFAULT_TRACE_MASK
        self._words = self.settings.words
        self._after_flush: list[Callable[[], None]] = []
        self._started_ns = time.monotonic_ns()
        self._sweep_ms: int | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {self.name}>"

    @property
    def ensemble_verbs(self) -> EnsembleVerbs | None:
        """Verbs for the servers of its ensemble; None for a single server."""
        return None

    def _listen(self, settings: Settings) -> None:
        """Bind the ports: the first accepts plain text if there is a secure port beside it."""
        tls = settings.tls.context() if settings.tls is not None else None
        first_tls = tls if settings.secure_port is None or settings.unifies_ports else None
        listener = bind(settings.address, settings.port, settings.accept_backlog)
        self._factories.append(ConnectionFactory(self, listener, first_tls, plain=settings.unifies_ports))
        if settings.secure_port is not None:
            address = settings.address if settings.secure_address is None else settings.secure_address
            listener = bind(address, settings.secure_port, settings.accept_backlog)
            self._factories.append(ConnectionFactory(self, listener, tls))

    def _new_throttle(self) -> ConnectionThrottle | None:
        if self.settings.throttle is None:
            return None
        import random

        from simzk.serve.tcp.connections import ConnectionThrottle

        now_ms, local = self.clock.now_ms(), self.settings.local_sessions
        return ConnectionThrottle(self.settings.throttle, now_ms, random.random, local_sessions=local)

    def _new_driver(self, server: Server) -> WireDriver:
        directory = self.directory
        return WireDriver(server, self.clock, persist=None if directory is None else lambda: directory.sync())

    def use_driver(self, driver: WireDriver) -> None:
        """Serve what a driver drives."""
        super().use_driver(driver)
        driver.on_deadline = lambda at_ms: self.call_on_loop(self.arm)
        driver.on_resume = lambda: self.call_on_loop(self._resume_connections)

    def _load(self, settings: Settings) -> Server:
        now_ms = self.clock.now_ms()
        if settings.data_directory is None:
            return Server(settings.server, now_ms=now_ms)
        from simzk.serve.storage.data_directory import DataDirectory

        directory = DataDirectory(settings.data_directory, settings.storage, log_path=settings.log_directory)
        self.directory = self.storage = directory
        return directory.load(settings.server, now_ms)

    async def start(self) -> None:
        """Accept connections on the running loop."""
        await super().start()
        for factory in self._factories:
            await factory.start()
        self.arm()

    def stop(self) -> None:
        """Refuse new connections, close those that are open, and write the last of the data; on the loop."""
        for factory in self._factories:
            factory.close()
        self._timer.cancel()
        self.driver.close()
        for factory in self._factories:
            factory.abort()
        self.close_storage()

    @property
    def notices(self) -> Sequence[str]:
        """Warnings about its configuration file."""
        return self.settings.notices

    # Time

    @property
    def is_persistent(self) -> bool:
        """Whether replies wait for the disk."""
        return self.directory is not None

    def now_ms(self) -> int:
        """Return the server's time."""
        return self.clock.now_ms()

    def uptime_ms(self) -> int:
        """Return the wall time since it was made."""
        return (time.monotonic_ns() - self._started_ns) // 1_000_000

    def arm_for_sweep(self) -> None:
        """Set the timer once for each new time at which containers and TTL nodes are to be removed."""
        sweep_ms = self.driver.server.next_sweep_ms
        if sweep_ms != self._sweep_ms:
            self._sweep_ms = sweep_ms
            self.arm()

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        """Call back on the loop after some wall time."""
        assert self._loop is not None
        return self._loop.call_later(delay_s, callback)

    # Connections

    @property
    def connections(self) -> list[TcpConnection]:
        """The open connections of all ports."""
        return list(chain.from_iterable(factory.connections for factory in self._factories))

    def when_silent(self, callback: Callable[[], None]) -> asyncio.TimerHandle | None:
        """Call back when a new connection has requested no session for too long; never on virtual time (§1.3)."""
        if not isinstance(self.clock, WallClock):
            return None
        now_ms = self.now_ms()
        interval_ms = self.settings.silence_ms
        at_ms = ((now_ms + interval_ms) // interval_ms + 1) * interval_ms
        return self.call_later((at_ms - now_ms) / 1000, callback)

    def _resume_connections(self) -> None:
        for connection in self.connections:
            connection.go_on()

    def flush_soon(self, then: Callable[[], None]) -> None:
        """Send output after one disk write for all requests of this turn of the loop; then call back."""
        assert self._loop is not None
        if not self._after_flush:
            self._loop.call_soon(self._flush)
        self._after_flush.append(then)

    def _flush(self) -> None:
        waiting, self._after_flush = self._after_flush, []
        self.driver.flush()
        for then in waiting:
            then()

    # Monitoring

    def is_allowed(self, word: str) -> bool:
        """Return whether a four-letter word is answered."""
        return word in self._words

    def answer_word(self, word: str, argument: bytes, *, securely: bool) -> bytes:
        """Return the answer to a four-letter word.

        Args:
            word: the word.
            argument: bytes that followed it.
            securely: whether it arrived at a port secured by TLS.
        """
        self.statistics.packets_received += 1
        if not self.is_allowed(word):
            return f"{word} is not executed because it is not in the whitelist.\n".encode()
        with self.driver.lock:
            report = self.report()._replace(is_asked_securely=securely)
            return answer(word, report, argument[: WORDS[word].argument_bytes]).encode()

    def set_trace_mask(self, mask: int) -> None:
        """Store the mask of traces; simzk writes no traces."""
        self.trace_mask = mask

    def report(self) -> Report:
        """Return what monitoring commands report; hold the driver's lock while it is read."""
        # Imported late: most servers are never asked for a report.
        from simzk.serve.tcp.process_info import environment, java_date, open_files, system_properties

        settings, directory = self.settings, self.directory
        data_bytes, log_bytes = self._sizes_bytes()
        return Report(
            server=self.driver.server,
            statistics=self.statistics,
            connections=[connection.report() for connection in self.connections],
            settings=self._conf(),
            environment=environment(self.driver.server.config.rules.build),
            properties=system_properties(settings.text or ""),
            data_bytes=data_bytes,
            log_bytes=log_bytes,
            digests=tuple(directory.digests) if directory is not None else (),
            last_snapshot=directory.last_snapshot() if directory is not None else (-1, -1),
            initial_configuration=settings.text,
            trace_mask=self.trace_mask,
            set_trace_mask=self.set_trace_mask,
            now_ms=self.now_ms(),
            uptime_ms=self.uptime_ms(),
            date_of=java_date,
            disk=directory.measured if directory is not None else {},
            slow_fsync_ms=settings.storage.slow_fsync_ms,
            provider=self._provider(),
            process=self._process(),
            open_files=open_files(),
            drop_chance=self.throttle.drop_chance if self.throttle is not None else 0.0,
        )

    def _provider(self) -> Literal["default", "prometheus", "null"]:
        if self.settings.metrics is not None:
            return "prometheus"
        return "default" if self.settings.counts else "null"

    def _process(self) -> Sequence[Family]:
        if self.settings.metrics is None or not self.settings.metrics.exports_process:
            return ()
        from simzk.serve.tcp.process_info import process_families

        return process_families()

    def _sizes_bytes(self) -> tuple[int, int]:
        return self.directory.size_bytes() if self.directory is not None else (0, 0)

    def _conf(self) -> dict[str, str | int]:
        config, directory = self.settings.server, self.directory
        where = str(directory.folder) if directory is not None else ""
        data_bytes, log_bytes = self._sizes_bytes()
        return {
            "clientPort": self.port,
            "secureClientPort": self.secure_port,
            "dataDir": where,
            "dataDirSize": data_bytes,
            "dataLogDir": str(directory.log_folder) if directory is not None else "",
            "dataLogSize": log_bytes,
            "tickTime": config.tick_time_ms,
            "maxClientCnxns": self.settings.max_connections_per_address,
            "minSessionTimeout": config.clamp_timeout(0),
            "maxSessionTimeout": config.clamp_timeout(2**31 - 1),
            "clientPortListenBacklog": self.settings.backlog,
            "serverId": 0,
        }
