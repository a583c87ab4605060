"""Kafka's own command line tools, of one release."""

from __future__ import annotations

import subprocess
import zipfile
from typing import TYPE_CHECKING

from simzk.kafka.zookeeper_mode.replay.actions import ToolCommand
from tests.conformance.real_kafka.releases import java
from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conformance.real_kafka.releases import Release

LOG4J = """\
log4j.rootLogger=WARN, C
log4j.appender.C=org.apache.log4j.ConsoleAppender
log4j.appender.C.layout=org.apache.log4j.PatternLayout
log4j.appender.C.layout.ConversionPattern=[%d] %p %m (%c)%n
"""
# What releases older than Java 17 reach for by reflection.
_OPENED = ("java.nio", "sun.nio.ch", "java.lang", "java.util", "jdk.internal.ref")


class Tools:
    """Runs the tools of a release.

    Args:
        release: which Kafka.
        jars: its jars.
        folder: where the tools' settings are written.
    """

    def __init__(self, release: Release, jars: Path, folder: Path) -> None:
        self.release = release
        self.jars = jars
        self.folder = folder
        self.classes = {
            name.removesuffix(".class").replace("/", ".")
            for jar in (*jars.glob("kafka*.jar"), *jars.glob("zookeeper*.jar"))
            for name in zipfile.ZipFile(jar).namelist()
        }
        (folder / "log4j.properties").write_text(LOG4J)

    def tool(self, *classes: str, arguments: tuple[object, ...], given: str = "") -> str:
        """Run the first of these classes that the release has, to its end; return what it said on stdout."""
        main = next(name for name in classes if name in self.classes)
        return self._run([*self._java(), main], arguments, given)

    def attempt(self, *classes: str, arguments: tuple[object, ...]) -> ToolCommand:
        """Run the first of these classes that the release has, in `folder`, to its end, whatever it returns."""
        main = next(name for name in classes if name in self.classes)
        done = self._done([*self._java(), main, *map(str, arguments)], "")
        return ToolCommand(" ".join((main, *map(str, arguments))), done.returncode, done.stdout + done.stderr)

    def output(self, main: str, arguments: tuple[object, ...], given: str = "") -> str:
        """Run a class to its end, whatever it returns; return what it said."""
        done = self._done([*self._java(), main, *map(str, arguments)], given)
        return done.stdout + done.stderr

    def source(self, file: Path, *arguments: object) -> None:
        """Run a Java program of one file with the release's jars."""
        self._run([*self._java(), str(file)], arguments, "")

    def _run(self, command: list[str], arguments: tuple[object, ...], given: str) -> str:
        whole = [*command, *map(str, arguments)]
        done = self._done(whole, given)
        assert done.returncode == 0, f"{' '.join(whole[len(self._java()) :])}: {done.stdout}{done.stderr}"
        return done.stdout

    def _done(self, whole: list[str], given: str) -> subprocess.CompletedProcess[str]:
        patience_s = 2 * PATIENCE_S
        return subprocess.run(
            whole, input=given, capture_output=True, text=True, timeout=patience_s, check=False, cwd=self.folder
        )

    def _java(self) -> list[str]:
        opened = [word for name in _OPENED for word in ("--add-opens", f"java.base/{name}=ALL-UNNAMED")]
        log = f"-Dlog4j.configuration=file:{self.folder / 'log4j.properties'}"
        settings = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"]
        return [java(self.release), *settings, log, *opened, "-cp", f"{self.jars}/*"]
