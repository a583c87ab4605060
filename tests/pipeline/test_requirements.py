"""What Spark lacks on a machine is said in one line, before Spark is started."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from simzk.errors import ConfigError
from simzk.pipeline.requirements import java_version, require_spark

if TYPE_CHECKING:
    from pathlib import Path


def fake_java(folder: Path, says: str) -> Path:
    java = folder / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    java.chmod(0o755)
    return java


def no_java(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(path))


def told(match: str) -> None:
    with pytest.raises(ConfigError, match=match) as caught:
        require_spark()
    assert "\n" not in str(caught.value)


def test_no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    no_java(monkeypatch, tmp_path)
    told(r"Spark needs Java 17 or newer and none is on PATH: install one \(Debian: apt-get install openjdk-17")


def test_a_java_home_without_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    told(r"Spark needs Java 17 or newer and JAVA_HOME=.* holds none: install one")


@pytest.mark.parametrize(
    ("says", "version"),
    [('openjdk version "11.0.22" 2024-01-16', 11), ('java version "1.8.0_392"', 8), ('openjdk version "16-ea"', 16)],
)
def test_a_java_that_is_too_old(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, says: str, version: int) -> None:
    java = fake_java(tmp_path, says)
    no_java(monkeypatch, java.parent)
    told(f"Spark needs Java 17 or newer and {java} is Java {version}: install one")


def test_a_java_that_says_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    no_java(monkeypatch, fake_java(tmp_path, "segmentation fault").parent)
    told("does not say its version: install one")


@pytest.mark.parametrize(
    ("says", "version"),
    [('openjdk version "17.0.15" 2025-04-15', 17), ('openjdk version "21" 2023-09-19', 21), ("nothing", None)],
)
def test_versions_of_java_are_read(says: str, version: int | None) -> None:
    assert java_version(says) == version


def test_a_java_that_will_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path, 'openjdk version "21.0.2" 2024-01-16').parents[1]))
    require_spark()


@pytest.mark.parametrize("version", ["3.0.1", "2.1.4"])
def test_a_pandas_that_pyspark_does_not_accept(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr("pandas.__version__", version)
    told(r"[Pp]andas.* Type: pip install 'simzk\[spark\]' 'pandas>=2\.2,<3'")


@pytest.mark.parametrize("package", ["pyspark", "pandas", "pyarrow"])
def test_a_package_that_is_not_installed(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    monkeypatch.setattr("simzk.pipeline.requirements.find_spec", lambda name: None if name == package else sys)
    told(f"sweeps need {package}: pip install 'simzk\\[spark\\]'")
