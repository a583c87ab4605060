"""A Spark session of our own: embedded or on a cluster, silent, leaving nothing behind in the working directory.

Spark's Java process and the Python workers under it write their log into a file of ours, not on the user's screen; it
is looked at only where Spark does not start.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from simzk.errors import ConfigError
from simzk.pipeline.requirements import require_spark

if TYPE_CHECKING:
    from collections.abc import Iterator

    from py4j.java_gateway import JavaGateway
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

LOCAL = "local[*]"
"""The master of an embedded Spark: this machine, all cores."""


@contextmanager
def spark_session(master: str = LOCAL) -> Iterator[SparkSession]:
    """A session; at its end its Java process is gone too.

    Args:
        master: as Spark's `--master`.

    Raises:
        ConfigError: Spark cannot run here, does not start, or runs in this process already (it can only once).
    """
    require_spark()
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    if SparkContext._active_spark_context is not None:
        raise ConfigError("a Spark session is open in this process", right="that one to be used, or to be stopped")
    with tempfile.TemporaryDirectory(prefix="simzk-spark-") as scratch, tempfile.TemporaryFile() as log:
        settings = _settings(master, scratch)
        with _workers_python():
            gateway = None
            try:
                gateway = launch_gateway(settings, popen_kwargs={"stdout": log, "stderr": log})  # type: ignore[no-untyped-call]
                context = SparkContext(conf=settings, gateway=gateway)
            except Exception as error:
                _end(gateway)
                raise ConfigError(f"Spark did not start: {_reason(log, error)}", where=f"--master {master}") from error
            try:
                yield SparkSession(context)
            finally:
                context.stop()
                _end(gateway)


def _settings(master: str, scratch: str) -> SparkConf:
    from pyspark import SparkConf

    settings = {
        "spark.app.name": "simzk",
        "spark.master": master,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.warehouse.dir": os.path.join(scratch, "warehouse"),
        "spark.sql.session.timeZone": "UTC",
    }
    if master.startswith("local"):
        # An embedded Spark talks to itself: neither the host's name nor its network has a say.
        settings |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.local.dir": scratch,
            # By default it is 200, for a cluster: on one machine most of those tasks are empty.
            "spark.sql.shuffle.partitions": str(4 * (os.cpu_count() or 1)),
        }
    return SparkConf().setAll(list(settings.items()))


@contextmanager
def _workers_python() -> Iterator[None]:
    """The Python of the workers is this one: left to itself, PySpark takes whatever `python3` is on PATH."""
    names = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, sys.executable))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _reason(log: IO[bytes], error: Exception) -> str:
    """The last line of Spark's log that names an exception, or what PySpark says."""
    log.seek(0)
    lines = log.read().decode(errors="replace").splitlines()
    named = [line for line in lines if "Exception: " in line or "Error: " in line]
    return re.sub(r"^.*?(Exception|Error): ", "", named[-1]) if named else str(error).splitlines()[0]


def _end(gateway: JavaGateway | None) -> None:
    """End the Java process, which PySpark would leave running, and keep for its next session, until Python exits."""
    from pyspark import SparkContext

    SparkContext._gateway = None
    SparkContext._jvm = None
    SparkContext._active_spark_context = None
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()  # at the end of its input it exits
        gateway.proc.wait()
