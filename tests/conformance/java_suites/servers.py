"""Servers of ours for a suite in another language, all in one process: each lives as long as a connection to it does.

    python -m tests.conformance.java_suites.servers

Rules of this module:
  - the first line on stdout is the port on which servers are asked for; the process ends with its stdin;
  - a client connects and sends one line: the path of a zoo.cfg and, after a tab, of an optional JAAS file; it receives
    `ok` once the server listens, or the reason why it does not;
  - when the client closes, its server stops as if killed: connections are cut. Then the client's connection ends.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from simzk.errors import SimzkError
from simzk.serve.clock import WallClock
from simzk.serve.configuration.file_formats import read_jaas
from simzk.serve.configuration.zoo_cfg import read_zoo_cfg
from simzk.serve.tcp.server import TcpServer


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        config, _, jaas = (await reader.readline()).decode().strip("\n").partition("\t")
        try:
            settings = read_zoo_cfg(Path(config))
            if jaas:
                settings = settings._replace(server=settings.server._replace(sasl_users=read_jaas(Path(jaas))))
            server = TcpServer(settings, WallClock())
        except SimzkError as error:
            writer.write(f"{error}\n".encode())
            return
        await server.start()
        writer.write(b"ok\n")
        await reader.read()
        server.stop()
    finally:
        writer.close()


async def _main() -> None:
    listening = await asyncio.start_server(_serve, "127.0.0.1", 0)
    print(listening.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_main())
