"""Which Kafka releases are run, by their Maven coordinates, and how their jars are fetched.

Rules of this module:
  - a release's jars stand in a folder of their own, which appears whole or not at all;
  - what is needed and not there is said in one sentence: `why_not`.

Kafka 2.0 to 2.3 are not run: their ZooKeeper client fails on Java 14 and newer (UnresolvedAddressException).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

CACHE = "SIMZK_KAFKA_JARS"
LAYOUTS = Path(__file__).resolve().parents[3] / "scenarios" / "layouts"
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
_FETCH_S = 600


class Artifact(NamedTuple):
    """Maven coordinates."""

    group: str
    name: str
    version: str

    def to_xml(self, inside: str = "") -> str:
        """A dependency of a pom."""
        identity = f"<groupId>{self.group}</groupId><artifactId>{self.name}</artifactId>"
        return f"<dependency>{identity}<version>{self.version}</version>{inside}</dependency>"


# Kafka binds slf4j to log4j only as it is packed for download; the artifact alone comes without a binding.
_LOG4J = Artifact("org.slf4j", "slf4j-log4j12", "1.7.36")
_RELOAD4J = Artifact("org.slf4j", "slf4j-reload4j", "1.7.36")
# Dependencies of old log4j that are not published any more.
_GONE = (("com.sun.jmx", "jmxri"), ("com.sun.jdmk", "jmxtools"), ("javax.jms", "jms"), ("javax.mail", "mail"))


class Release(NamedTuple):
    """A Kafka release: its version, the Scala it is built with, and what it needs beside its own artifact."""

    version: str
    scala: str
    beside: tuple[Artifact, ...]

    @property
    def number(self) -> tuple[int, ...]:
        """The version to compare with."""
        return tuple(int(part) for part in self.version.split("."))

    @property
    def recording(self) -> Path:
        """What three brokers of this release wrote to a real ZooKeeper."""
        return LAYOUTS / f"kafka-{self.version}" / "dumps.json"

    def to_pom(self) -> str:
        """A pom of which this release is what it depends on."""
        exclusions = "".join(
            f"<exclusion><groupId>{group}</groupId><artifactId>{name}</artifactId></exclusion>" for group, name in _GONE
        )
        kafka = Artifact("org.apache.kafka", f"kafka_{self.scala}", self.version)
        needed = [kafka.to_xml(f"<exclusions>{exclusions}</exclusions>"), *(x.to_xml() for x in self.beside)]
        dependencies = f"<dependencies>{''.join(needed)}</dependencies>"
        identity = "<groupId>real</groupId><artifactId>kafka</artifactId><version>1</version>"
        return f"<project><modelVersion>4.0.0</modelVersion>{identity}{dependencies}</project>"


RELEASES = (
    Release("0.8.2.2", "2.11", (_LOG4J,)),
    Release("2.4.1", "2.12", (_LOG4J,)),
    Release("3.9.1", "2.13", (_RELOAD4J, Artifact("org.apache.kafka", "kafka-tools", "3.9.1"))),
)


def why_not() -> str | None:
    """Why no real broker can be run here, or None."""
    if CACHE not in os.environ:
        return f"real brokers run where {CACHE} names a folder for their jars"
    missing = [name for name in ("java", "mvn") if shutil.which(name) is None]
    return f"real brokers need {' and '.join(missing)} on PATH" if missing else None


def jars(release: Release) -> Path:
    """The folder of a release's jars, fetched if it is not there yet."""
    folder = Path(os.environ[CACHE]).expanduser().resolve() / release.version
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
            pom = Path(temporary) / "pom.xml"
            pom.write_text(release.to_pom())
            fetched = Path(temporary) / "jars"
            command = [
                "mvn",
                "-q",
                "-B",
                "-f",
                str(pom),
                _COPY,
                f"-DoutputDirectory={fetched}",
                "-DincludeScope=runtime",
            ]
            done = subprocess.run(command, capture_output=True, text=True, timeout=_FETCH_S, check=False)
            assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
            fetched.rename(folder)
    return folder
