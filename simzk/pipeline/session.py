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
from pathlib import Path
from typing import IO, TYPE_CHECKING
from zipfile import ZIP_DEFLATED, ZipFile

from simzk.errors import ConfigError
from simzk.pipeline.requirements import WORKERS_PYTHON, require_spark

if TYPE_CHECKING:
    from collections.abc import Iterator

    from py4j.java_gateway import JavaGateway
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

LOCAL = "local[*]"
"""The master of an embedded Spark: this machine, all cores."""

QUICK_COMPILER = "-XX:TieredStopAtLevel=1"
"""Java compiles once, quickly, and not again."""

_THREADS = re.compile(r"local(\[.*\])?")
"""Masters whose executor is the driver itself."""


@contextmanager
def spark_session(master: str = LOCAL, *, is_python_busy: bool = False) -> Iterator[SparkSession]:
    """A session; at its end its Java process is gone too.

    Args:
        master: as Spark's `--master`.
        is_python_busy: whether Python computes, and Java only hands on what it is told. An embedded Java then goes
            without its better compiler, which would take a core from the workers for as long as a short job lasts.

    Raises:
        ConfigError: Spark cannot run here, does not start, or runs in this process already (it can only once).
    """
    require_spark(embedded=master.startswith("local"))
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    if SparkContext._active_spark_context is not None:
        raise ConfigError("a Spark session is open in this process", right="that one to be used, or to be stopped")
    with tempfile.TemporaryDirectory(prefix="simzk-spark-") as scratch, tempfile.TemporaryFile() as log:
        settings = _settings(master, scratch, is_python_busy=is_python_busy)
        with _environment(_variables(master, scratch)):
            gateway = None
            try:
                gateway = launch_gateway(settings, popen_kwargs={"stdout": log, "stderr": log})  # type: ignore[no-untyped-call]
                context = SparkContext(conf=settings, gateway=gateway)
                if not _THREADS.fullmatch(master):
                    _ship(context, scratch)
            except Exception as error:
                _end(gateway)
                raise ConfigError(f"Spark did not start: {_reason(log, error)}", where=f"--master {master}") from error
            try:
                yield SparkSession(context)
            finally:
                context.stop()
                _end(gateway)


def _settings(master: str, scratch: str, *, is_python_busy: bool) -> SparkConf:
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
        if is_python_busy:
            settings |= {f"spark.{who}.defaultJavaOptions": QUICK_COMPILER for who in ("driver", "executor")}
    return SparkConf().setAll(list(settings.items()))


def _variables(master: str, scratch: str) -> dict[str, str]:
    """What Spark finds in its environment beside what is there.

    Its Python workers run on this Python unless the user names another: PySpark itself takes `python3` of PATH. The
    driver's is this one in any case: Spark asks it for the schemas of data sources.
    """
    variables = {
        WORKERS_PYTHON: os.environ.get(WORKERS_PYTHON) or sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    if master.startswith("local-cluster"):
        from pyspark.find_spark_home import _find_spark_home

        # Its executors work in `work` below Spark's folder, which stays as it is: they get one that looks like it.
        home = os.path.join(scratch, "home")
        os.mkdir(home)
        for name in set(os.listdir(_find_spark_home())) - {"work"}:
            os.symlink(os.path.join(_find_spark_home(), name), os.path.join(home, name))
        variables["SPARK_HOME"] = home
    return variables


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _ship(context: SparkContext, scratch: str) -> None:
    """Send simzk to the workers of a cluster, for they may have none, or another one."""
    package = Path(__file__).parents[1]
    shipped = Path(scratch, "simzk.zip")
    with ZipFile(shipped, "w", ZIP_DEFLATED) as archive:
        for file in sorted(package.rglob("*.py")):
            archive.write(file, file.relative_to(package.parent))
    path = list(sys.path)
    context.addPyFile(str(shipped))
    sys.path[:] = path  # it is here already


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
