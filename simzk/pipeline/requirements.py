"""What Spark needs on this machine, looked at before it is started: its own failures come late and are hard to read."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import warnings
from importlib.util import find_spec

from simzk.errors import ConfigError

OLDEST_JAVA = 17
"""Spark 4 runs on Java 17 or newer."""

INSTALL_JAVA = "install one (Debian: apt-get install openjdk-17-jre-headless) or point JAVA_HOME at it"


def require_spark() -> None:
    """Make sure that PySpark, what it imports, and Java are there and new enough.

    Raises:
        ConfigError: one of them is not; the error says what to type.
    """
    _require_packages()
    _require_java()


def _require_packages() -> None:
    for package in ("pyspark", "pandas", "pyarrow"):
        if find_spec(package) is None:
            raise ConfigError(f"sweeps need {package}: pip install 'simzk[spark]'")
    from pyspark.sql.pandas.utils import require_minimum_pandas_version, require_minimum_pyarrow_version

    with warnings.catch_warnings():
        # PySpark only warns of a pandas that is too new for it.
        warnings.simplefilter("error", FutureWarning)
        try:
            require_minimum_pandas_version()
            require_minimum_pyarrow_version()
        except (ImportError, FutureWarning) as error:
            raise ConfigError(f"{error} Type: pip install 'simzk[spark]' 'pandas>=2.2,<3' 'pyarrow>=18'") from error


def _require_java() -> None:
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if java is None or not os.access(java, os.X_OK):
        place = f"JAVA_HOME={home} holds none" if home else "none is on PATH"
        raise ConfigError(f"Spark needs Java {OLDEST_JAVA} or newer and {place}: {INSTALL_JAVA}")
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    version = java_version(said.stderr + said.stdout)
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
