"""A standalone cluster of Spark on this machine: two masters, of which `simzk serve` decides who leads, two workers.

All ports are those that the system gives. The workers know nothing of simzk: what they need of it is sent to them.
"""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from tests.conformance.real_zookeeper import jars
from tests.pipeline.processes import Started

if TYPE_CHECKING:
    from pathlib import Path

QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Java that lives for seconds: what its better compiler gains it does not live to see."""

SESSION_TIMEOUT_MS = 3000
"""How long a dead master leads on: masters ask for a minute, and get what the server grants."""


def environment(**variables: str) -> dict[str, str]:
    """Return the settings that keep a Spark process on this machine and on this Python."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    return {**kept, "SPARK_LOCAL_IP": "127.0.0.1", "JAVA_TOOL_OPTIONS": QUICK_JAVA, **variables}


class StandaloneCluster:
    """Started as a context manager; gone, with all its executors, at its end.

    The first master leads.

    Args:
        folder: one that is there and empty.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = ExitStack()
        self.masters: list[Started] = []
        self.workers: list[Started] = []
        self.url = ""
        """Value of `--master`."""

    def __enter__(self) -> Self:
        with self._stack as stack:
            hosts = self._start_zookeeper(stack)
            for _ in range(2):
                self.masters.append(self._start_master(stack, hosts))
                self.masters[0].wait_for("I have been elected leader! New state: ALIVE")
            ports = [master.wait_for(r"Starting Spark master at spark://127.0.0.1:(\d+)")[1] for master in self.masters]
            self.url = "spark://" + ",".join(f"127.0.0.1:{port}" for port in ports)
            self.workers = [self._start_worker(stack, number) for number in range(2)]
            for worker in self.workers:
                worker.wait_for("Successfully registered with master")
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def _start_zookeeper(self, stack: ExitStack) -> str:
        config = self._folder / "zoo.cfg"
        config.write_text(
            f"clientPort=0\nclientPortAddress=127.0.0.1\ndataDir={self._folder / 'zookeeper'}\n"
            f"tickTime=500\nmaxSessionTimeout={SESSION_TIMEOUT_MS}\nadmin.enableServer=false\n"
        )
        command = [sys.executable, "-c", "from simzk.cli import main; main()", "serve", "--config", str(config)]
        server = stack.enter_context(Started(command, self._folder, dict(os.environ)))
        return server.wait_for(r"^listening on (\S+)")[1]

    def _start_master(self, stack: ExitStack, hosts: str) -> Started:
        settings = {
            "spark.deploy.recoveryMode": "ZOOKEEPER",
            "spark.deploy.zookeeper.url": hosts,
            "spark.deploy.zookeeper.dir": "/spark",
            "spark.master.rest.enabled": "false",  # it would take a port of its own choice
        }
        arguments = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        return self._start_java(stack, "master.Master", settings, arguments)

    def _start_worker(self, stack: ExitStack, number: int) -> Started:
        work = self._folder / f"worker-{number}"
        limits = ["--cores", "1", "--memory", "1g", "--work-dir", str(work)]
        arguments = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0", *limits, self.url]
        return self._start_java(stack, "worker.Worker", {}, arguments)

    def _start_java(self, stack: ExitStack, main: str, settings: dict[str, str], arguments: list[str]) -> Started:
        home = jars().parent
        options = " ".join(f"-D{name}={value}" for name, value in settings.items())
        variables = environment(SPARK_HOME=str(home), SPARK_DAEMON_MEMORY="512m", SPARK_DAEMON_JAVA_OPTS=options)
        variables.pop("PYTHONPATH", None)
        # The script becomes the Java process.
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{main}", *arguments]
        return stack.enter_context(Started(command, self._folder, variables))

    def wait_for_takeover(self) -> None:
        """The first master is gone: until the second leads, and the workers are its own."""
        self.masters[1].wait_for("I have been elected leader! New state: RECOVERING")
        self.masters[1].wait_for("Recovery complete.* - resuming operations!")
        for worker in self.workers:
            worker.wait_for("Master has changed, new master is at")
