"""Actions on a cluster that are written down as they are performed, as a test and as a scenario file.

Rules of this module:
  - an action is written with the virtual time at which it began: the same seed and the same actions at the same times
    give the same history;
  - an action that is impossible, such as the restart of a running broker, is not written, because a scenario would stop
    there.
"""

from __future__ import annotations

import json
import textwrap
from typing import TYPE_CHECKING, NamedTuple

from simzk.testing import strategies

if TYPE_CHECKING:
    from collections.abc import Sequence

    import simzk
    from simzk.testing.strategies import ClusterShape, Fault, TopicShape


class StoryAction(NamedTuple):
    """An action, in Python and as the keys of a scenario's step, at a virtual time."""

    at_us: int
    python: str
    toml: str


class Story:
    """Actions on one cluster.

    Args:
        cluster: a cluster that was just started.
        shape: its shape.

    >>> shape = strategies.ClusterShape(brokers=1, racks=0, session_timeout_ms=6000, seed=7)
    >>> with shape.start() as cluster:
    ...     story = Story(cluster, shape)
    ...     _ = story.inflict(strategies.Fault(0, "kill", 1, 0))
    ...     cluster.run_for(2)
    ...     print("\\n".join(story.python_lines()))
    cluster.kill(1)
    cluster.run_for(2)
    """

    def __init__(self, cluster: simzk.KafkaCluster, shape: ClusterShape) -> None:
        self._cluster = cluster
        self._shape = shape
        self._start_us = cluster.scheduler.now_us
        self._actions: list[StoryAction] = []
        self._healing_from: int | None = None

    def create_topic(self, topic: TopicShape) -> None:
        """Create a topic."""
        replicas = [list(ids) for ids in topic.replicas]
        assignment = ", ".join(f"{number}: {ids}" for number, ids in enumerate(replicas))
        self._note(
            f"create_topic({json.dumps(topic.name)}, assignment={{{assignment}}})",
            f'action = "create_topic"\ntopic = {json.dumps(topic.name)}\nassignment = {replicas}',
        )
        topic.create(self._cluster)

    def inflict(self, fault: Fault) -> bool:
        """Apply a fault now; return whether it was possible."""
        at_us = self._cluster.scheduler.now_us
        possible = strategies.inflict(self._cluster, fault)
        if possible:
            pause = fault.verb == "pause"
            python = f"{fault.verb}({fault.broker}{f', {fault.duration_ms / 1000:g}' * pause})"
            duration = f'\nfor = "{fault.duration_ms}ms"' * pause
            self._note(python, f'action = "{fault.verb}"\nbroker = {fault.broker}{duration}', at_us)
        return possible

    def reassign(self, targets: dict[tuple[str, int], list[int]]) -> None:
        """Reassign partitions."""
        replicas = ", ".join(f'"{topic}-{number}" = {ids}' for (topic, number), ids in targets.items())
        self._note(f"reassign({targets})", f'action = "reassign"\nreplicas = {{ {replicas} }}')
        self._cluster.reassign(targets)

    def elect(self, kind: str, partitions: Sequence[tuple[str, int]] | None = None) -> None:
        """Request an election for some partitions; for every partition if None."""
        names = chosen = ""
        if partitions is not None:
            names = f"\npartitions = {json.dumps([f'{topic}-{number}' for topic, number in partitions])}"
            chosen = f", {list(partitions)}"
        self._note(f'elect("{kind}"{chosen})', f'action = "elect"\nkind = "{kind}"{names}')
        self._cluster.elect(kind, partitions)

    def begin_healing(self) -> None:
        """Mark the actions from now on as healing, which a test performs by `heal`."""
        self._healing_from = len(self._actions)

    def _note(self, python: str, toml: str, at_us: int | None = None) -> None:
        self._actions.append(StoryAction(self._cluster.scheduler.now_us if at_us is None else at_us, python, toml))

    def python_lines(self) -> list[str]:
        """Return the statements of a test, time between them included, without healing."""
        lines, now_us = [], self._start_us
        for action in self._actions[: self._healing_from]:
            assert action.at_us >= now_us, "actions are written down in the order of their times"
            if action.at_us > now_us:
                lines.append(f"cluster.run_for({(action.at_us - now_us) / 1e6:g})")
            lines.append(f"cluster.{action.python}")
            now_us = action.at_us
        if self._healing_from is None and self._cluster.scheduler.now_us > now_us:
            lines.append(f"cluster.run_for({(self._cluster.scheduler.now_us - now_us) / 1e6:g})")
        return lines

    def to_test(self, machine: type, failure: BaseException, has_extra_invariants: bool) -> str:
        """Return a test that fails as the machine did.

        Args:
            machine: the class of the machine.
            failure: its failure.
            has_extra_invariants: whether the machine has invariants of its own.
        """
        shape = self._shape
        imports = ["import simzk", "from simzk.simulation.history import Monitor"]
        invariants = "cluster.invariants"
        if has_extra_invariants:
            imports.append(f"from {machine.__module__} import {machine.__name__}")
            invariants = f"[*cluster.invariants, *{machine.__name__}().extra_invariants()]"
        body = [f"monitor = Monitor(cluster.history, {invariants}, seed={shape.seed})", *self.python_lines()]
        if self._healing_from is not None:
            imports.append("from simzk.testing import assert_recovered, heal")
            body.append("heal(cluster)")
        body.append("assert not monitor.violations, monitor.violations[0]")
        if self._healing_from is not None:
            body.append("assert_recovered(cluster)")
        lines = [
            *imports,
            "",
            "",
            f"def test_{machine.__name__}():",
            *(f"    # {part}" for line in _first_lines(failure) for part in textwrap.wrap(line, 110)),
            f'    config = {{"zookeeper.session.timeout.ms": "{shape.session_timeout_ms}"}}',
            f"    with simzk.KafkaCluster(brokers={shape.brokers}, seed={shape.seed}, config=config) as cluster:",
            *(f"        {line}" for line in body),
        ]
        return "\n".join(lines)

    def to_scenario(self, machine: type, failure: BaseException) -> str:
        """Return a scenario file that does the same; `simzk run` checks the cluster's invariants by itself."""
        shape = self._shape
        why = " ".join(_first_lines(failure)).replace("\\", "/").replace('"', "'")
        head = (
            f'title = "Found by {machine.__name__}"\nwhy = "{why}"\nseed = {shape.seed}\n\n[cluster]\n'
            f"brokers = {shape.brokers}\n"
            f'config = {{ "zookeeper.session.timeout.ms" = "{shape.session_timeout_ms}" }}'
        )
        blocks = [head] + [f'[[step]]\nat = "{action.at_us // 1000}ms"\n{action.toml}' for action in self._actions]
        if self._healing_from is None:
            # A scenario has an expectation; an invariant of the cluster fails the run by itself.
            at_ms = self._cluster.scheduler.now_us // 1000
            blocks.append(
                f'[[step]]\nat = "{at_ms}ms"\nexpect = "brokers"\nregistered = {self._cluster.live_brokers}\n'
                'name = "the brokers when it failed"'
            )
        else:
            ids = list(range(1, shape.brokers + 1))
            blocks.append(f'[[step]]\nwithin = "120s"\nexpect = "brokers"\nregistered = {ids}')
            blocks.append('[[step]]\nwithin = "120s"\nexpect = "offline"\npartitions = []')
        return "\n\n".join(blocks)

    def to_text(self, machine: type, failure: BaseException, has_extra_invariants: bool) -> str:
        """Return the test and the scenario, each below a line that says what it is; arguments as for `to_test`."""
        return (
            f"\n# As a test, to paste:\n\n{self.to_test(machine, failure, has_extra_invariants)}\n\n"
            f"# As a scenario for `simzk run`, to paste:\n\n{self.to_scenario(machine, failure)}\n"
        )


def _first_lines(failure: BaseException) -> list[str]:
    """Return the first lines of a failure's message, without the values that pytest adds."""
    lines = [line.strip() for line in str(failure).splitlines()]
    return [line for line in lines if line and not line.startswith(("assert ", "+ ", "and "))][:3] or [
        type(failure).__name__
    ]
