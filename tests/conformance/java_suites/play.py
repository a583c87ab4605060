"""Plays tests of Java's projects, each class in a process of its own, on the servers that they start or on ours."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from xml.etree import ElementTree

from tests.conformance.java_suites.jars import HERE, Jars, class_path

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = HERE.parents[2]
CLASS_S = 600


class Suite(NamedTuple):
    """Suites and classes to run.

    Attributes:
        jars: where its classes are.
        package: that `classes` are in.
        classes: by their names in the package.
        options: of Java, whoever serves.
        ours: of Java beside those, where ours serve.
    """

    jars: Jars
    package: str
    classes: tuple[str, ...]
    options: tuple[str, ...] = ()
    ours: tuple[str, ...] = ()


class Servers:
    """Servers of ours for these tests (servers.py), as a context manager."""

    def __enter__(self) -> str:
        """The option of Java that says where they are asked for."""
        command = [sys.executable, "-m", "tests.conformance.java_suites.servers"]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        return f"-Dsimzk.servers={int(self._process.stdout.readline())}"

    def __exit__(self, *_: object) -> None:
        self._process.communicate()


def play(suite: Suite, *, ours: bool) -> dict[str, str]:
    """How each test ended: "passed", "failed" or "skipped", by its class and name.

    Raises:
        AssertionError: a class whose tests could not be played.
    """
    path = class_path(suite.jars, ours=ours)
    if not ours:
        return _play_all(suite, path, suite.options)
    with Servers() as where:
        return _play_all(suite, path, (*suite.options, *suite.ours, where))


def _play_all(suite: Suite, path: str, options: Iterable[str]) -> dict[str, str]:
    outcomes: dict[str, str] = {}
    for name in suite.classes:
        with tempfile.TemporaryDirectory() as folder:
            java = ["java", "-Xmx600m", f"-Dbuild.test.dir={folder}", *options, "-cp", path]
            console = ["org.junit.platform.console.ConsoleLauncher", "--disable-banner", "--details=none"]
            asked = ["--reports-dir", folder, "-c", f"{suite.package}.{name}"]
            command = [*java, *console, *asked]
            done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=CLASS_S, check=False)
            found = {test: outcome for file in Path(folder).glob("TEST-*.xml") for test, outcome in _read(file)}
        assert found, f"{name}: {done.stdout[-2000:]}{done.stderr[-1000:]}"
        outcomes |= {f"{name}.{test}": outcome for test, outcome in found.items()}
    return outcomes


def _read(report: Path) -> Iterable[tuple[str, str]]:
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        kinds = {element.tag for element in case}
        outcome = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        yield case.attrib["name"].partition("(")[0], outcome
