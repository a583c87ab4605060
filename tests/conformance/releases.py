"""Real ZooKeeper servers of every release, from the jars that Apache published, and what they say.

    python -m tests.conformance.releases builds FOLDER             # the table of simzk/zookeeper/releases.py
    python -m tests.conformance.releases record FOLDER [RELEASE]   # what each answers to version_story.py

Rules of this module:
  - jars are fetched into FOLDER with Ivy, which PySpark brings, each release with what it needs to serve;
  - a recording holds from its release on until the next one's in the same line: `record` writes a file where the
    answers are not those of the release before.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from simzk.zookeeper.releases import BUILDS, number_of
from tests.conformance.arms import TcpArm
from tests.conformance.comparison import Normaliser
from tests.conformance.downloads import filled
from tests.conformance.java_suites.jars import Artifact, Jars, fetch
from tests.conformance.pair import PROPERTIES, SETTINGS, TICK_MS
from tests.conformance.real_zookeeper import RealZooKeeper
from tests.conformance.version_story import tell

RECORDED = Path(__file__).parent / "data" / "versions"
PATIENCE_S = 1.5  # for what some releases never answer
NEEDS = (
    Artifact("org.xerial.snappy", "snappy-java", "1.1.10.5"),
    Artifact("io.dropwizard.metrics", "metrics-core", "4.1.12.1"),
    Artifact("commons-cli", "commons-cli", "1.4"),
    Artifact("com.googlecode.json-simple", "json-simple", "1.1.1"),
)
"""What releases need and do not say."""


def line_of(release: str) -> str:
    """The line that a release belongs to, as "3.5"."""
    return release.rpartition(".")[0]


def recorded(release: str) -> list[str]:
    """Return the recorded replies of a release: its own recording, or the last one before it in its line."""
    files = {file.stem: file for file in RECORDED.glob("*.txt")}
    line = [one for one in BUILDS if line_of(one) == line_of(release)]
    before = [one for one in line[: line.index(release) + 1] if one in files]
    return files[before[-1]].read_text().splitlines()


def fetched(release: str, folder: Path) -> Path:
    """The folder of a release's jars; they are fetched if it is not there yet."""
    jars = folder / f"zookeeper-{release}"
    artifacts = (Artifact("org.apache.zookeeper", "zookeeper", release), *NEEDS)
    return filled(jars, lambda fetched: fetch(Jars(jars.name, artifacts, ()), fetched, folder / "ivy"))


def real_release(release: str, folder: Path) -> RealZooKeeper:
    """A real server of a release, set as the simulated one of a `Pair`."""
    return RealZooKeeper(
        tick_time_ms=TICK_MS, settings=SETTINGS, properties=PROPERTIES, jars_from=fetched(release, folder)
    )


def build_of(release: str, folder: Path) -> str:
    """How a release introduces itself."""
    command = ["java", "-cp", f"{fetched(release, folder)}/*", "org.apache.zookeeper.Version", "--full"]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    (build,) = re.findall(r"^3\.\S+, built on .*$", said, re.MULTILINE)
    assert isinstance(build, str)
    return build


def told_by_real(release: str, jars: Path | None = None) -> list[str]:
    """Return a real server's replies to the story; without jars, of PySpark's ZooKeeper."""
    settings = {"reconfigEnabled": "false", "maxClientCnxns": "0"}
    properties = {
        "zookeeper.enforceQuota": "true",
        "znode.container.checkIntervalMs": str(10**9),
    }
    with RealZooKeeper(tick_time_ms=2000, settings=settings, properties=properties, jars_from=jars) as server:
        arm = TcpArm(server.port, PATIENCE_S)
        return list(tell(arm, Normaliser(), hard_quotas=number_of(release) >= (3, 7, 0)))


def record(folder: Path, releases: list[str]) -> None:
    """Write down what releases answer, in the order of `BUILDS`."""
    before: dict[str, list[str]] = {}
    for release in BUILDS:
        if release not in releases:
            continue
        reported = told_by_real(release, fetched(release, folder))
        if reported != before.get(line_of(release)):
            (RECORDED / f"{release}.txt").write_text("".join(f"{one}\n" for one in reported))
        before[line_of(release)] = reported


def main(command: str, folder: str, *releases: str) -> None:
    if command == "record":
        record(Path(folder), list(releases or BUILDS))
        return
    for release in releases or BUILDS:
        print(f'    "{release}": "{build_of(release, Path(folder))}",')


if __name__ == "__main__":
    main(*sys.argv[1:])
