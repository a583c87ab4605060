"""Missing requirements of Spark are reported in one line before Spark starts."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from simzk.errors import ConfigError
from simzk.pipeline.spark_session import OLDEST_PYSPARK, java_version, require_spark

ROOT = Path(__file__).parents[2]
OURS = f"{sys.version_info.major}.{sys.version_info.minor}"


def fake_java(folder: Path, says: str) -> Path:
    java = folder / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    java.chmod(0o755)
    return java


def no_java(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(path))


def reported(match: str, *, embedded: bool = True) -> None:
    with pytest.raises(ConfigError, match=match) as caught:
        require_spark(embedded=embedded)
    assert "\n" not in str(caught.value)


def test_no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    no_java(monkeypatch, tmp_path)
    reported(r"Spark needs Java 17 or newer and none is on PATH: install one \(Debian: apt-get install openjdk-17")


def test_a_java_home_without_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    reported(r"Spark needs Java 17 or newer and JAVA_HOME=.* holds none: install one")


@pytest.mark.parametrize(
    ("says", "version"),
    [('openjdk version "11.0.22" 2024-01-16', 11), ('java version "1.8.0_392"', 8), ('openjdk version "16-ea"', 16)],
)
def test_a_java_that_is_too_old(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, says: str, version: int) -> None:
    java = fake_java(tmp_path, says)
    no_java(monkeypatch, java.parent)
    reported(f"Spark needs Java 17 or newer and {java} is Java {version}: install one")


def test_a_java_that_says_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    no_java(monkeypatch, fake_java(tmp_path, "segmentation fault").parent)
    reported("does not say its version: install one")


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
    reported(r"[Pp]andas.* Type: pip install 'simzk\[spark\]' 'pandas>=2\.2,<3'")


@pytest.mark.parametrize("package", ["pyspark", "pandas", "pyarrow"])
def test_a_package_that_is_not_installed(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    monkeypatch.setattr("simzk.pipeline.spark_session.find_spec", lambda name: None if name == package else sys)
    reported(f"Spark needs {package}, which is not installed: pip install 'simzk\\[spark\\]'")


@pytest.mark.parametrize("version", ["3.5.9", "4.1.4"])
def test_a_pyspark_that_is_too_old(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr("pyspark.__version__", version)
    reported(rf"PySpark {version} is too old: pip install 'simzk\[spark\]' 'pyspark>=4\.2,<5'")


def test_the_oldest_pyspark_is_the_one_that_is_asked_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert "pyspark>={}.{},<5".format(*OLDEST_PYSPARK) in project["optional-dependencies"]["spark"]


def test_a_java_that_is_a_folder_or_no_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.mkdir(parents=True)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    reported(f"{java} does not say its version")
    java.rmdir()
    java.write_bytes(b"\0")
    java.chmod(0o755)
    reported(f"{java} does not say its version")


def spark_home(folder: Path, version: str) -> None:
    for file in (folder / "bin" / "spark-submit", folder / "jars" / f"spark-core_2.13-{version}.jar"):
        file.parent.mkdir()
        file.touch(0o755)


def test_a_spark_home_of_another_version_or_without_spark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    reported(f"SPARK_HOME={tmp_path} contains no Spark: unset SPARK_HOME")
    spark_home(tmp_path, "3.5.1-amzn-0")
    reported(rf"SPARK_HOME={tmp_path} is Spark 3\.5\.1-amzn-0, and PySpark is 4\.\d+\.\d+: unset SPARK_HOME")


def test_the_spark_home_of_the_same_version_will_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, java_that_will_do: None
) -> None:
    import pyspark

    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    spark_home(tmp_path, pyspark.__version__)
    require_spark()


@pytest.fixture
def java_that_will_do(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    java = fake_java(tmp_path_factory.mktemp("java"), 'openjdk version "17.0.15" 2025-04-15')
    monkeypatch.setenv("JAVA_HOME", str(java.parents[1]))


def fake_python(folder: Path, says: str) -> Path:
    python = folder / "python3"
    python.write_text(f"#!/bin/sh\n{says}\n")
    python.chmod(0o755)
    return python


@pytest.mark.parametrize(
    ("says", "found"),
    [
        ("echo 3.9; echo 'pandas pyarrow'", r"Python 3\.9"),
        ("echo 2.7; echo 'Traceback (most recent call last):' >&2; exit 1", r"Python 2\.7"),
        ("echo 'command not found' >&2; exit 127", "no Python"),
    ],
)
def test_another_python_for_the_workers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, java_that_will_do: None, says: str, found: str
) -> None:
    python = fake_python(tmp_path, says)
    for named in (str(python), "python3"):  # by its path, and found on PATH
        monkeypatch.setenv("PYSPARK_PYTHON", named)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
        reported(
            f"PYSPARK_PYTHON={named} is {found}, and this is Python {OURS}: "
            f"unset PYSPARK_PYTHON, or export PYSPARK_PYTHON={sys.executable}$"
        )
        reported(f"and this is Python {OURS}: export PYSPARK_PYTHON as a Python {OURS} of the cluster", embedded=False)


def test_a_python_for_the_workers_that_lacks_what_they_import(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, java_that_will_do: None
) -> None:
    python = fake_python(tmp_path, f"echo {OURS}; echo 'pandas pyarrow'")
    monkeypatch.setenv("PYSPARK_PYTHON", str(python))
    reported(rf"PYSPARK_PYTHON={python} lacks pandas, pyarrow: {python} -m pip install 'simzk\[spark\]'")


def test_a_python_that_is_not_here_is_the_business_of_a_cluster(
    monkeypatch: pytest.MonkeyPatch, java_that_will_do: None
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/cluster/python")
    reported(f"PYSPARK_PYTHON=/opt/cluster/python is no program: unset PYSPARK_PYTHON, or export .*={sys.executable}")
    require_spark(embedded=False)


def test_a_python_by_another_name_is_asked_what_it_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, java_that_will_do: None
) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    monkeypatch.setenv("PYSPARK_PYTHON", str(python))
    require_spark()


def simzk(*words: object, **variables: str) -> subprocess.CompletedProcess[str]:
    """A command as it is typed, in an environment that has these variables too."""
    program = [sys.executable, "-c", "from simzk.cli import main; main()", *map(str, words)]
    return subprocess.run(program, env={**os.environ, **variables}, capture_output=True, text=True, check=False)


def test_all_of_it_is_found_before_spark_starts(tmp_path: Path, java_that_will_do: None) -> None:
    """As typed: a pandas that stands in the way, an old Java, another Python; one line, exit 2, nothing written."""
    data = Path(__file__).parent / "data" / "kafka-3.6.2"
    (tmp_path / "pandas").mkdir()
    (tmp_path / "pandas" / "__init__.py").write_text('__version__ = "1.5.3"\n')
    (tmp_path / "old").mkdir()
    old = fake_java(tmp_path / "old", 'openjdk version "11.0.22" 2024-01-16').parents[1]
    python = fake_python(tmp_path, "echo 3.9")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    for variables, match in (
        ({"PYTHONPATH": path}, "Type: pip install 'simzk[spark]' 'pandas>=2.2,<3'"),
        ({"JAVA_HOME": str(old)}, "is Java 11: install one"),
        ({"JAVA_HOME": str(tmp_path)}, f"JAVA_HOME={tmp_path} holds none: install one"),
        ({"PYSPARK_PYTHON": str(python)}, f"unset PYSPARK_PYTHON, or export PYSPARK_PYTHON={sys.executable}"),
    ):
        ended = simzk("timelines", data, "--out", tmp_path / "out", "--master", "local[2]", **variables)
        assert (ended.returncode, ended.stdout) == (2, "")
        assert ended.stderr.startswith("simzk: error: ")
        assert match in ended.stderr
        assert ended.stderr.count("\n") == 1
        assert not (tmp_path / "out").exists()
