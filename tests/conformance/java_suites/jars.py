"""Jars of Java's own suites, with the tests that their projects publish beside them, by Maven coordinates.

Rules of this module:
  - Ivy, which comes with PySpark, does the fetching: nothing but Java needs to be on the machine;
  - a suite's folder appears whole or not at all; what stands in for a class of the suite is compiled beside it.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import NamedTuple

from tests.conformance import real_zookeeper
from tests.conformance.downloads import filled

CACHE = "SIMZK_JAVA_SUITES"
HERE = Path(__file__).parent
_FETCH_S = 900
_PATTERN = "[artifact]-[revision](-[classifier]).[ext]"


class Artifact(NamedTuple):
    """Maven coordinates; with `tests` also the jar of the project's tests, which has a classifier."""

    group: str
    name: str
    version: str
    tests: bool = False
    classifier: str = "tests"

    def to_xml(self) -> str:
        """A dependency of an Ivy file, with what it needs to run."""
        begin = f'<dependency org="{self.group}" name="{self.name}" rev="{self.version}" conf="default->default"'
        if not self.tests:
            return f"{begin}/>"
        artifact = f'<artifact name="{self.name}" type="jar" ext="jar"'
        return f'{begin}>{artifact}/>{artifact} m:classifier="{self.classifier}"/></dependency>'


class Jars(NamedTuple):
    """Requirements of a suite.

    Attributes:
        name: of its folder.
        artifacts: what is fetched.
        stand_ins: sources in this folder of what comes before the suite's own classes when ours are played.
        extension: class among them that JUnit loads as an extension; empty for none.
    """

    name: str
    artifacts: tuple[Artifact, ...]
    stand_ins: tuple[str, ...]
    extension: str = ""


# The console comes with all of JUnit; others ask for parts of older ones.
_IN_THE_CONSOLE = (
    '<exclude org="org.junit.jupiter"/><exclude org="org.junit.platform" module="junit-platform-commons"/>'
)
# Old releases name what is to be had nowhere, and need none of it to serve.
_NOWHERE = '<exclude org="com.sun.jmx"/><exclude org="com.sun.jdmk"/><exclude org="javax.jms"/>'
_MOCKITO = Artifact("org.mockito", "mockito-core", "4.11.0")
ZOOKEEPER = Jars(
    "zookeeper-3.9.5",
    (
        Artifact("org.apache.zookeeper", "zookeeper", "3.9.5", tests=True),
        Artifact("org.junit.platform", "junit-platform-console-standalone", "1.8.1"),
        _MOCKITO,
        Artifact("org.hamcrest", "hamcrest", "2.2"),
        Artifact("org.slf4j", "slf4j-nop", "1.7.36"),
        Artifact("org.xerial.snappy", "snappy-java", "1.1.10.5"),
        Artifact("io.dropwizard.metrics", "metrics-core", "4.1.12.1"),
        Artifact("commons-collections", "commons-collections", "3.2.2"),
        Artifact("commons-cli", "commons-cli", "1.5.0"),  # of its command line, and no dependency of it
    ),
    ("ServersCnxnFactory.java", "JMXEnv.java"),
)
CURATOR = Jars(
    "curator-5.9.0",
    (
        *(
            Artifact("org.apache.curator", f"curator-{part}", "5.9.0", tests=True)
            for part in ("client", "framework", "recipes")
        ),
        Artifact("org.apache.curator", "curator-test", "5.9.0"),
        Artifact("org.junit.platform", "junit-platform-console-standalone", "1.10.2"),
        _MOCKITO,
        Artifact("org.awaitility", "awaitility", "4.2.0"),
        Artifact("org.assertj", "assertj-core", "3.24.2"),
        Artifact("org.slf4j", "slf4j-nop", "1.7.36"),
        Artifact("org.xerial.snappy", "snappy-java", "1.1.10.5"),
        Artifact("io.dropwizard.metrics", "metrics-core", "3.2.5"),
        Artifact("org.apache.commons", "commons-math", "2.2"),
        Artifact("com.fasterxml.jackson.core", "jackson-databind", "2.15.2"),
    ),
    ("TestingServer.java",),
)


_KAFKA = "3.9.2"
_WITH_TESTS = ("tools", "clients", "server-common", "storage", "storage-api", "metadata", "raft", "group-coordinator")
KAFKA = Jars(
    f"kafka-{_KAFKA}",
    (
        Artifact("org.apache.kafka", "kafka_2.13", _KAFKA, tests=True, classifier="test"),
        *(Artifact("org.apache.kafka", f"kafka-{part}", _KAFKA, tests=True, classifier="test") for part in _WITH_TESTS),
        Artifact("org.junit.platform", "junit-platform-console-standalone", "1.13.1"),
        Artifact("org.mockito", "mockito-core", "5.10.0"),
        Artifact("org.mockito", "mockito-junit-jupiter", "5.10.0"),
        Artifact("org.slf4j", "slf4j-reload4j", "1.7.36"),
        Artifact("org.bouncycastle", "bcpkix-jdk18on", "1.78.1"),
        Artifact("org.hamcrest", "hamcrest", "2.2"),
        Artifact("org.apache.commons", "commons-lang3", "3.12.0"),
        Artifact("org.xerial.snappy", "snappy-java", "1.1.10.5"),
        Artifact("io.dropwizard.metrics", "metrics-core", "4.1.12.1"),
        Artifact("commons-cli", "commons-cli", "1.4"),
    ),
    tuple(sorted(str(path.relative_to(HERE)) for path in HERE.glob("kafka_stand_ins/**/*.java"))),
    "simzk.ext.Only",
)


def why_not() -> str | None:
    """Why no suite of Java's is played here, or None."""
    return None if CACHE in os.environ else f"Java's suites are played where {CACHE} names a folder for their jars"


def class_path(suite: Jars, *, ours: bool) -> str:
    """The class path of a suite, downloaded first if it is missing; with our stand-ins before it, or without."""
    folder = Path(os.environ[CACHE]).expanduser().resolve() / suite.name
    filled(folder, lambda fetched: fetch(suite, fetched / "jars", folder.parent / "ivy"))
    if not ours:
        return f"{folder}/jars/*"
    sources = [str(HERE / name) for name in suite.stand_ins]
    _run(["javac", "-nowarn", "-cp", f"{folder}/jars/*", "-d", str(folder / "stand-ins"), *sources])
    if suite.extension:
        services = folder / "stand-ins" / "META-INF" / "services"
        services.mkdir(parents=True, exist_ok=True)
        (services / "org.junit.jupiter.api.extension.Extension").write_text(f"{suite.extension}\n")
    return f"{folder}/stand-ins:{folder}/jars/*"


def fetch(suite: Jars, folder: Path, cache: Path) -> None:
    """Download the jars of a suite into a folder, with Ivy's cache in `cache`."""
    (ivy,) = real_zookeeper.jars().glob("ivy-*.jar")
    folder.mkdir(parents=True, exist_ok=True)
    needed = "".join(artifact.to_xml() for artifact in suite.artifacts) + _IN_THE_CONSOLE + _NOWHERE
    file = folder.parent / "ivy.xml"
    file.write_text(
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven"><info organisation="x" module="suite"/>'
        f'<configurations><conf name="default"/></configurations><dependencies>{needed}</dependencies></ivy-module>'
    )
    places = ("-cache", str(cache), "-retrieve", f"{folder}/{_PATTERN}", "-types", "jar", "bundle")
    _run(["java", "-jar", str(ivy), "-ivy", str(file), "-confs", "default", *places])


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=_FETCH_S, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
