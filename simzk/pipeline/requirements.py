"""What Spark needs on this machine, looked at before it is started: its own failures come late and are hard to read.

Every error ends with what to type. Rules of this module:
  - Java is the one that Spark's own scripts take: that of JAVA_HOME, else of PATH;
  - Spark's Python workers run on this Python, unless PYSPARK_PYTHON names another: then that one must be of the same
    minor version, which PySpark asks for, and have what the workers import. One that is not on this machine is the
    business of a cluster that has it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path

from simzk.errors import ConfigError

OLDEST_JAVA = 17
"""Spark 4 runs on Java 17 or newer."""

OLDEST_PYSPARK = (4, 2)
"""Before 4.1 data sources get no filters; before 4.2 a stream's source is not told where the last batch ended."""

INSTALL = "pip install 'simzk[spark]'"
INSTALL_JAVA = "install one (Debian: apt-get install openjdk-17-jre-headless) or point JAVA_HOME at it"

WORKERS_PYTHON = "PYSPARK_PYTHON"
"""The environment variable by which a user says on which Python Spark's workers run."""

_WORKERS_IMPORT = ("numpy", "pandas", "pyarrow")
_ASK_PYTHON = f"""
import sys
print("%d.%d" % sys.version_info[:2])
from importlib.util import find_spec
print(" ".join(name for name in {_WORKERS_IMPORT} if find_spec(name) is None))
"""


def require_spark(*, embedded: bool = True) -> None:
    """Make sure that PySpark, what it imports, Java, and the workers' Python are there and fit.

    Args:
        embedded: whether the workers run on this machine, as children of this process.

    Raises:
        ConfigError: one of them is not; the error says what to type.
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
        # PySpark only warns of a pandas that is too new for it.
        warnings.simplefilter("error", FutureWarning)
        try:
            require_minimum_pandas_version()
            require_minimum_pyarrow_version()
        except (ImportError, FutureWarning) as error:
            raise ConfigError(f"{error} Type: {INSTALL} 'pandas>=2.2,<3' 'pyarrow>=18'") from error


def _require_spark_of_that_version() -> None:
    """PySpark starts the Spark of SPARK_HOME, where it is set, and cannot talk to one of another version."""
    import pyspark

    home = os.environ.get("SPARK_HOME")
    if not home:
        return
    if not os.access(os.path.join(home, "bin", "spark-submit"), os.X_OK):
        raise ConfigError(f"SPARK_HOME={home} holds no Spark: unset SPARK_HOME")
    for jar in Path(home, "jars").glob("spark-core_*.jar"):
        version = re.sub(r"^spark-core_[\d.]+-|\.jar$", "", jar.name)
        if version_of(version) != version_of(pyspark.__version__):
            told = f"SPARK_HOME={home} is Spark {version}, and PySpark is {pyspark.__version__}"
            raise ConfigError(f"{told}: unset SPARK_HOME")


def version_of(text: str) -> tuple[int, int]:
    """Major and minor version.

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
    version = java_version(_said(java, "-version"))
    if version is None or version < OLDEST_JAVA:
        found = f"{java} is Java {version}" if version else f"{java} does not say its version"
        raise ConfigError(f"Spark needs Java {OLDEST_JAVA} or newer and {found}: {INSTALL_JAVA}")


def java_version(text: str) -> int | None:
    """The feature release that `java -version` prints, None where there is none in the text.

    >>> java_version('openjdk version "17.0.15" 2025-04-15'), java_version('java version "1.8.0_392"')
    (17, 8)
    """
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(found[1]) if found else None


def _require_workers_python(*, embedded: bool) -> None:
    told = os.environ.get(WORKERS_PYTHON)
    if not told or told == sys.executable:
        return
    ours = f"{sys.version_info.major}.{sys.version_info.minor}"
    remedy = f"unset {WORKERS_PYTHON}, or export {WORKERS_PYTHON}={sys.executable}"
    if not embedded:
        remedy = f"export {WORKERS_PYTHON} as a Python {ours} of the cluster, or run this with that one"
    python = shutil.which(told)
    if python is None:
        if embedded:
            raise ConfigError(f"{WORKERS_PYTHON}={told} is no program: {remedy}")
        return
    version, _, missing = _said(python, "-c", _ASK_PYTHON).partition("\n")
    if version != ours:
        found = f"Python {version}" if re.fullmatch(r"\d+\.\d+", version) else "no Python"
        raise ConfigError(f"{WORKERS_PYTHON}={told} is {found}, and this is Python {ours}: {remedy}")
    if missing.strip():
        told = f"{WORKERS_PYTHON}={told} lacks {', '.join(missing.split())}"
        raise ConfigError(f"{told}: {python} -m pip install 'simzk[spark]'")


def _said(*command: str) -> str:
    """What a program wrote, wherever; nothing where it is none."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except OSError:  # a folder, a script without its first line
        return ""
    return (done.stdout + done.stderr).decode(errors="replace")
