"""Scenarios of known bugs: `[bug]`, and which expectations hold where the bug is shown and where it is mended.

Rules of the module:
  - releases that have the bug and releases that have it no more are named; it is played with these alone;
  - an expectation with `bug = "shown"` is looked at in the former only, with `bug = "mended"` in the latter only, and
    one without in both; there is one of each kind, so that the scenario tells them apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from simzk.errors import ConfigError
from simzk.kafka.versions import kafka_version
from simzk.scenarios import schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simzk.scenarios.source import Source

SHOWN, MENDED = "shown", "mended"


@dataclass(frozen=True, slots=True)
class Bug:
    """A known bug of Kafka: its id in Kafka's tracker, release lines that have it, and lines that do not."""

    id: str
    shown_in: tuple[str, ...]
    mended_in: tuple[str, ...]

    def outcome(self, version: str) -> str:
        """Whether the bug is `shown` or `mended` in a release.

        Raises:
            ConfigError: it is not said of this release.

        >>> Bug("KAFKA-1", ("2.4",), ("3.9",)).outcome("3.9.1")
        'mended'
        """
        line = kafka_version(version).name
        if line in self.shown_in:
            return SHOWN
        if line in self.mended_in:
            return MENDED
        known = ", ".join((*self.shown_in, *self.mended_in))
        raise ConfigError(
            f"{self.id} is said neither to show in Kafka {version} nor to be mended",
            where="[bug]",
            right=f"one of {known}",
        )


def read_bug(source: Source, table: schema.ScenarioTable, steps: Sequence[schema.Step]) -> Bug | None:
    """Read and check `[bug]` and the expectations that depend on it.

    Raises:
        ScenarioError: a release that is not simulated or not told apart, an expectation of neither outcome.
    """
    outcomes = {}
    for index, step in enumerate(steps):
        if isinstance(step, schema.Expectation) and step.bug:
            at = ("step", index, "bug")
            if step.bug not in (SHOWN, MENDED):
                source.fail(at, f"a bug is not {step.bug!r}", f"{SHOWN} or {MENDED}")
            if table.bug is None:
                source.fail(at, "which bug?", "a table [bug]")
            outcomes[step.bug] = True
    if table.bug is None:
        return None
    lines = []
    for key in ("shown_in", "mended_in"):
        try:
            lines.append(tuple(kafka_version(version).name for version in getattr(table.bug, key)))
        except ConfigError as error:
            source.fail(("bug", key), error.what, error.right)
    shown, mended = lines
    if not shown or not mended or any(line in mended for line in shown):
        source.fail(("bug",), "the releases do not tell them apart", "one or more in each list, none in both")
    if len(outcomes) < 2:
        source.fail(("bug",), "no expectation depends on it", f'one with bug = "{SHOWN}", one with bug = "{MENDED}"')
    if not isinstance(table.cluster.version, str):
        source.fail(("cluster", "version"), "a bug is shown by brokers of one release", 'version = "3.9"')
    return Bug(table.bug.id, shown, mended)
