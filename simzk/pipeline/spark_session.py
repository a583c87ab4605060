"""Spark session, embedded or on a cluster, a check of Spark's requirements before it starts, and progress of its jobs.

Spark's own failures come late and are hard to read, so every requirement is checked first; each error ends with the
command to type. Spark's Java process and Python workers log to a temporary file, which is read only if Spark does not
start. Nothing is left in the working directory.

Rules of this module:
  - Java is found as Spark's own scripts find it: in JAVA_HOME, else on PATH;
  - Spark's Python workers use this Python, unless PYSPARK_PYTHON names another. That one must have the same minor
    version, which PySpark requires, and the packages that the workers import. A path that does not exist here may
    exist on the cluster.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from threading import Event, Thread, current_thread, main_thread
from typing import IO, TYPE_CHECKING, TypeVar
from zipfile import ZIP_DEFLATED, ZipFile

from simzk.errors import ConfigError, SimzkError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from py4j.java_gateway import JavaGateway
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

OLDEST_JAVA = 17
"""Spark 4 runs on Java 17 or newer."""

OLDEST_PYSPARK = (4, 2)
"""Before 4.1 data sources get no filters; before 4.2 a stream source does not get the end of the last batch."""

INSTALL = "pip install 'simzk[spark]'"
INSTALL_JAVA = "install one (Debian: apt-get install openjdk-17-jre-headless) or point JAVA_HOME at it"

WORKERS_PYTHON = "PYSPARK_PYTHON"
"""Environment variable with the Python of Spark's workers."""

_WORKERS_IMPORT = ("numpy", "pandas", "pyarrow")
_ASK_PYTHON = f"""
import sys
print("%d.%d" % sys.version_info[:2])
from importlib.util import find_spec
print(" ".join(name for name in {_WORKERS_IMPORT} if find_spec(name) is None))
"""


def require_spark(*, embedded: bool = True) -> None:
    """Check that PySpark, its imports, Java and the workers' Python exist in suitable versions.

    Args:
        embedded: True if the workers run on this machine, as children of this process.

    Raises:
        ConfigError: a requirement is missing; the message ends with the command that installs it.
    """
    _require_packages()
    _require_spark_of_that_version()
    _require_java()
    _require_workers_python(embedded=embedded)


def _require_packages() -> None:
    for package in ("pyspark", "pandas", "pyarrow"):
        if find_spec(package) is None:
            raise ConfigError(f"Spark needs {package}, which is not installed: {INSTALL}")
    import pyspark

    if version_of(pyspark.__version__) < OLDEST_PYSPARK:
        oldest = ".".join(map(str, OLDEST_PYSPARK))
        raise ConfigError(f"PySpark {pyspark.__version__} is too old: {INSTALL} 'pyspark>={oldest},<5'")
    from pyspark.sql.pandas.utils import require_minimum_pandas_version, require_minimum_pyarrow_version

    with warnings.catch_warnings():
        # PySpark only warns about a pandas that is too new.
        warnings.simplefilter("error", FutureWarning)
        try:
            require_minimum_pandas_version()
            require_minimum_pyarrow_version()
        except (ImportError, FutureWarning) as error:
            raise ConfigError(f"{error} Type: {INSTALL} 'pandas>=2.2,<3' 'pyarrow>=18'") from error


def _require_spark_of_that_version() -> None:
    """Check the version of the Spark in SPARK_HOME, which PySpark starts if it is set."""
    import pyspark

    home = os.environ.get("SPARK_HOME")
    if not home:
        return
    if not os.access(os.path.join(home, "bin", "spark-submit"), os.X_OK):
        raise ConfigError(f"SPARK_HOME={home} contains no Spark: unset SPARK_HOME")
    for jar in Path(home, "jars").glob("spark-core_*.jar"):
        version = re.sub(r"^spark-core_[\d.]+-|\.jar$", "", jar.name)
        if version_of(version) != version_of(pyspark.__version__):
            found = f"SPARK_HOME={home} is Spark {version}, and PySpark is {pyspark.__version__}"
            raise ConfigError(f"{found}: unset SPARK_HOME")


def version_of(text: str) -> tuple[int, int]:
    """Return the major and minor version.

    >>> version_of("4.2.0.dev1"), version_of("3.5.1-amzn-0")
    ((4, 2), (3, 5))
    """
    major, minor = text.split(".")[:2]
    return int(major), int(minor)


def _require_java() -> None:
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if java is None or not os.access(java, os.X_OK):
        place = f"JAVA_HOME={home} holds none" if home else "none is on PATH"
        raise ConfigError(f"Spark needs Java {OLDEST_JAVA} or newer and {place}: {INSTALL_JAVA}")
    version = java_version(_output_of(java, "-version"))
    if version is None or version < OLDEST_JAVA:
        found = f"{java} is Java {version}" if version else f"{java} does not say its version"
        raise ConfigError(f"Spark needs Java {OLDEST_JAVA} or newer and {found}: {INSTALL_JAVA}")


def java_version(text: str) -> int | None:
    """Return the feature release in the output of `java -version`; None if there is none.

    >>> java_version('openjdk version "17.0.15" 2025-04-15'), java_version('java version "1.8.0_392"')
    (17, 8)
    """
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(found[1]) if found else None


def _require_workers_python(*, embedded: bool) -> None:
    program = os.environ.get(WORKERS_PYTHON)
    if not program or program == sys.executable:
        return
    ours = f"{sys.version_info.major}.{sys.version_info.minor}"
    remedy = f"unset {WORKERS_PYTHON}, or export {WORKERS_PYTHON}={sys.executable}"
    if not embedded:
        remedy = f"export {WORKERS_PYTHON} as a Python {ours} of the cluster, or run this with that one"
    python = shutil.which(program)
    if python is None:
        if embedded:
            raise ConfigError(f"{WORKERS_PYTHON}={program} is no program: {remedy}")
        return
    version, _, missing = _output_of(python, "-c", _ASK_PYTHON).partition("\n")
    if version != ours:
        found = f"Python {version}" if re.fullmatch(r"\d+\.\d+", version) else "no Python"
        raise ConfigError(f"{WORKERS_PYTHON}={program} is {found}, and this is Python {ours}: {remedy}")
    if missing.strip():
        lacks = f"{WORKERS_PYTHON}={program} lacks {', '.join(missing.split())}"
        raise ConfigError(f"{lacks}: {python} -m pip install 'simzk[spark]'")


def _output_of(*command: str) -> str:
    """Return a program's output on stdout and stderr; empty if it cannot be run."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except OSError:  # a folder, or a script without an interpreter line
        return ""
    return (done.stdout + done.stderr).decode(errors="replace")


LOCAL = "local[*]"
"""Master of an embedded Spark on all cores of this machine."""

QUICK_COMPILER = "-XX:TieredStopAtLevel=1"
"""Java uses only its fast compiler."""

_THREADS = re.compile(r"local(\[.*\])?")
"""Masters whose executor is the driver itself."""


@contextmanager
def spark_session(master: str = LOCAL, *, is_python_busy: bool = False) -> Iterator[SparkSession]:
    """Start a session; stop it and its Java process at the end.

    Args:
        master: as Spark's `--master`.
        is_python_busy: True if Python computes and Java only passes data on. An embedded Java then omits its optimising
            compiler, which would occupy a core during a short job.

    Raises:
        ConfigError: Spark cannot run here, does not start, or a session is already open in this process.
    """
    require_spark(embedded=master.startswith("local"))
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    if SparkContext._active_spark_context is not None:
        raise ConfigError("a Spark session is open in this process", right="use or stop that session")
    with tempfile.TemporaryDirectory(prefix="simzk-spark-") as scratch, tempfile.TemporaryFile() as log:
        settings = _settings(master, scratch, is_python_busy=is_python_busy)
        with _environment(_variables(master, scratch)), _quiet_interrupts() as ignore_interrupts:
            gateway = None
            try:
                gateway = launch_gateway(settings, popen_kwargs={"stdout": log, "stderr": log})  # type: ignore[no-untyped-call]
                context = SparkContext(conf=settings, gateway=gateway)
                if not _THREADS.fullmatch(master):
                    _ship(context, scratch)
            except Exception as error:
                _end(gateway)
                raise ConfigError(f"Spark did not start: {_reason(log, error)}", where=f"--master {master}") from error
            except KeyboardInterrupt:
                _end(gateway)
                raise
            try:
                yield SparkSession(context)
            finally:
                ignore_interrupts()
                context.stop()
                _end(gateway)


class _WithoutTrace(logging.Filter):
    """Filter of the traceback that py4j logs for Ctrl-C; the exception itself goes on."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not record.getMessage().startswith("KeyboardInterrupt while sending command")


@contextmanager
def _quiet_interrupts() -> Iterator[Callable[[], None]]:
    """Let Ctrl-C raise KeyboardInterrupt without a trace of py4j; restore its handler, which PySpark replaces.

    Returns:
        a function that ignores Ctrl-C for the rest of the block.
    """
    owns_signals = current_thread() is main_thread()
    before = signal.getsignal(signal.SIGINT)
    without_trace = _WithoutTrace()
    logging.getLogger().addFilter(without_trace)

    def ignore() -> None:
        if owns_signals:
            signal.signal(signal.SIGINT, signal.SIG_IGN)

    try:
        yield ignore
    finally:
        logging.getLogger().removeFilter(without_trace)
        if owns_signals:
            signal.signal(signal.SIGINT, before)


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
        # An embedded Spark uses loopback, independent of the host's name and network.
        settings |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.local.dir": scratch,
            # The default of 200 is for a cluster: on one machine most of those tasks are empty.
            "spark.sql.shuffle.partitions": str(4 * (os.cpu_count() or 1)),
        }
        if is_python_busy:
            settings |= {f"spark.{who}.defaultJavaOptions": QUICK_COMPILER for who in ("driver", "executor")}
    return SparkConf().setAll(list(settings.items()))


def _variables(master: str, scratch: str) -> dict[str, str]:
    """Return additional environment variables of Spark.

    Python workers use this Python unless the user names another; PySpark's own default is `python3` on PATH. The
    driver always uses this one: Spark asks it for the schemas of data sources.
    """
    variables = {
        WORKERS_PYTHON: os.environ.get(WORKERS_PYTHON) or sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    if master.startswith("local-cluster"):
        from pyspark.find_spark_home import _find_spark_home

        # Its executors write to `work` in Spark's folder; a folder of links keeps the installation unchanged.
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
    """Send simzk to the workers of a cluster, which may have none or another version."""
    package = Path(__file__).parents[1]
    assert package.name == "simzk", package
    shipped = Path(scratch, "simzk.zip")
    with ZipFile(shipped, "w", ZIP_DEFLATED) as archive:
        for file in sorted(package.rglob("*.py")):
            archive.write(file, file.relative_to(package.parent))
    path = list(sys.path)
    context.addPyFile(str(shipped))
    sys.path[:] = path  # addPyFile also prepends it to this process's path


def _reason(log: IO[bytes], error: Exception) -> str:
    """Return the last line of Spark's log that names an exception, or PySpark's message."""
    log.seek(0)
    lines = log.read().decode(errors="replace").splitlines()
    named = [line for line in lines if "Exception: " in line or "Error: " in line]
    return re.sub(r"^.*?(Exception|Error): ", "", named[-1]) if named else str(error).splitlines()[0]


def _end(gateway: JavaGateway | None) -> None:
    """Stop the Java process, which PySpark would keep until Python exits."""
    from pyspark import SparkContext

    SparkContext._gateway = None
    SparkContext._jvm = None
    SparkContext._active_spark_context = None
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()  # at the end of its input it exits
        gateway.proc.wait()


T = TypeVar("T")

POLL_S = 0.2


@contextmanager
def watched(
    spark: SparkSession, first: int, end: int, tasks: int, progress: Callable[[float], None] | None
) -> Iterator[None]:
    """Report the finished share of all tasks from another thread, while a one-stage job runs in this thread.

    Args:
        spark: the session.
        first, end: the first task of the job, and the first one after it; all tasks before it are done.
        tasks: number of the tasks of all jobs.
        progress: receives the share, 0 to 1; None for nobody.
    """
    assert 0 <= first < end <= tasks, f"tasks {first} to {end} of {tasks}"
    if progress is None:
        yield
        return
    most = 0

    def show(done: int, _: int) -> None:
        nonlocal most
        # Between its last task and its end a stage is no longer active.
        most = max(most, done)
        progress(min(first + most, end) / tasks)

    with _polled(spark, show):
        yield


@contextmanager
def narrated(spark: SparkSession, tell: Callable[[str, float | None], None]) -> Iterator[Callable[[str], None]]:
    """Report from another thread the current step and its finished tasks while jobs run in this thread.

    Args:
        spark: the session.
        tell: receives the current line, and the finished share of its tasks, 0 to 1, or None.

    Returns:
        a function to call with the name of the next step.
    """
    step = ""

    def begin(name: str) -> None:
        nonlocal step
        step = name
        tell(name, None)

    def show(done: int, tasks: int) -> None:
        if tasks:
            tell(f"{step}: {done:,} of {tasks:,} tasks", done / tasks)

    with _polled(spark, show):
        yield begin


@contextmanager
def _polled(spark: SparkSession, show: Callable[[int, int], None]) -> Iterator[None]:
    """Call `show` from another thread with the finished and all tasks of active stages, again and again."""
    tracker = spark.sparkContext.statusTracker()
    over = Event()

    def watch() -> None:
        while not over.wait(POLL_S):
            found = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            stages = [stage for stage in found if stage is not None]
            show(sum(stage.numCompletedTasks for stage in stages), sum(stage.numTasks for stage in stages))

    watcher = Thread(target=watch, name="simzk-progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def in_words(act: Callable[[], T]) -> T:
    """Call a function; raise a Spark failure as an error with its innermost reason in one line.

    Raises:
        KeyboardInterrupt: Ctrl-C ended the function, also if PySpark raised the failure of the cancelled job after it.
        SimzkError: Spark failed.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        return act()
    except (PySparkException, Py4JError) as error:
        if _was_interrupted(error):
            raise KeyboardInterrupt from None
        raise SimzkError(f"Spark could not do it: {_innermost_reason(_text(error))}") from error


def _was_interrupted(error: BaseException | None) -> bool:
    """Return whether an error was raised while KeyboardInterrupt was handled."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def _text(error: Exception) -> str:
    """Return the text of an error; a Java exception is read from Java, which may have exited."""
    try:
        return str(error)
    except Exception:
        return "its Java process has ended"


def _innermost_reason(text: str) -> str:
    """Return the last line of the first Python traceback in a text, or its first line.

    >>> _innermost_reason('failed:\\nTraceback (most recent call last):\\n  File "a.py"\\nOSError: no space\\nat java')
    'OSError: no space'
    """
    lines = text.splitlines()
    for place, line in enumerate(lines):
        if line.startswith("Traceback"):
            after = [later for later in lines[place + 1 :] if later and not later[0].isspace()]
            return after[0] if after else line
    return lines[0] if lines else "no reason given"
