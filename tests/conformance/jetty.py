"""Jetty, without which a real ZooKeeper has no AdminServer: PySpark's jars have all that it needs but this.

Rules of this module:
  - Ivy, which comes with PySpark, does the fetching: nothing but Java needs to be on the machine;
  - the folder appears whole or not at all; what is needed and not there is said in one sentence: `why_not`.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.conformance.downloads import filled
from tests.conformance.real_zookeeper import jars

CACHE = "SIMZK_JETTY_JARS"
_VERSION = "9.4.57.v20241219"  # the one that ZooKeeper 3.9 is built with
_FETCH_S = 600


def why_not() -> str | None:
    """Why no real AdminServer is run here, or None."""
    if CACHE in os.environ or os.environ.get("CI", "").lower() == "true":
        return None
    return f"real AdminServers run where {CACHE} names a folder for Jetty's jars, and in CI"


def jetty() -> Path:
    """The folder of Jetty's jars, fetched if it is not there yet."""
    folder = Path(os.environ.get(CACHE, "~/.cache/simzk-jetty")).expanduser().resolve() / _VERSION
    return filled(folder, lambda fetched: _fetch(fetched, folder.parent / "ivy"))


def _fetch(folder: Path, cache: Path) -> None:
    (ivy,) = jars().glob("ivy-*.jar")
    wanted = ("-dependency", "org.eclipse.jetty", "jetty-servlet", _VERSION, "-confs", "default")
    retrieved = ("-types", "jar", "-retrieve", f"{folder}/[artifact]-[revision].[ext]")
    command = ["java", "-jar", str(ivy), "-cache", str(cache), *wanted, *retrieved]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_FETCH_S, check=False)
    if done.returncode or not list(folder.glob("jetty-server-*.jar")):
        raise RuntimeError(f"Jetty could not be fetched: {done.stdout[-1500:]}{done.stderr[-500:]}")
