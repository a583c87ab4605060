"""State and verbs of a running cluster's brokers, for control over HTTP (simzk/serve/admin_server/live.py).

Rules of this module:
  - the state is JSON values, and bounded; partitions that need attention come first;
  - a verb is recorded in the history as an action of the operator, like a step of a scenario.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from simzk.errors import ConfigError, SimzkError
from simzk.scenarios import view
from simzk.scenarios.network_links import cut, end_of, heal, peer_ends
from simzk.simulation.history import format_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from simzk.kafka.cluster.cluster import KafkaCluster
    from simzk.simulation import Event

Json = dict[str, object]

OPERATOR = "operator"
EVENTS_MAX = 60
"""Number of events in a state."""
PARTITIONS_MAX = 200
"""Number of partitions in a state."""
PARTITIONS_READ_MAX = 2000
"""Number of partitions that are read for a state, by topic and partition."""
PICTURE_EVENTS_MAX, PICTURE_PARTITIONS_MAX = 2000, 500
"""Number of the latest events, and of partitions, in a picture: it takes a second at most."""
OFFLINE, STOPPED, SHORT, IN_SYNC = STATES = ("offline", "leader stopped", "under-replicated", "in sync")
"""States of a partition: no leader, a leader that does not run, fewer replicas in the ISR than assigned, others."""


class BrokerControl:
    """State and verbs of the brokers of one cluster.

    >>> import simzk
    >>> with simzk.KafkaCluster(brokers=2) as cluster:
    ...     control = BrokerControl(cluster)
    ...     control.act(2, "kill", None)
    ...     [(one["id"], one["state"]) for one in control.state()["brokers"]]
    [(1, 'running'), (2, 'stopped')]
    """

    def __init__(self, cluster: KafkaCluster) -> None:
        self._cluster = cluster
        self._verbs: dict[str, Callable[[int], object]] = {
            "kill": cluster.kill,
            "stop": cluster.shutdown,
            "start": cluster.restart,
            "pause": cluster.pause,
            "resume": cluster.resume,
            "expire": cluster.expire,
            "disconnect": cluster.disconnect,
        }
        self._links: dict[str, Callable[[KafkaCluster, int, int | str], None]] = {"cut": cut, "heal": heal}

    @property
    def verbs(self) -> tuple[str, ...]:
        """Names of what `act` does."""
        return *self._verbs, *self._links

    def act(self, broker: int, verb: str, peer: int | None) -> None:
        """Do something to a broker now.

        Args:
            broker: its id.
            verb: one of `verbs`.
            peer: another broker, for `cut` and `heal`; None for ZooKeeper and all other brokers.

        Raises:
            ConfigError: the broker, the peer or the verb does not exist, or the broker's state does not fit.
        """
        known = self._cluster.brokers
        if verb not in self.verbs:
            raise ConfigError(f"unknown verb {verb!r}", where="verb", right=f"one of {', '.join(self.verbs)}")
        for name, number in (("broker", broker), ("peer", peer)):
            if number is not None and number not in known:
                right = f"one of {', '.join(map(str, known))}"
                raise ConfigError(f"broker {number} does not exist", where=name, right=right)
        if peer is not None and (peer == broker or verb not in self._links):
            raise ConfigError(f"{verb} has no peer {peer}", where="peer", right="another broker, of cut or heal")
        if verb in self._links:
            self._links[verb](self._cluster, broker, "" if peer is None else peer)
        else:
            self._verbs[verb](broker)
        self._cluster.history.record(OPERATOR, f"{verb} broker {broker}", "" if peer is None else f"broker {peer}")

    def state(self) -> Json:
        """Return brokers, partitions and the latest events."""
        cluster, history = self._cluster, self._cluster.history
        read = list(islice(self._partitions(), PARTITIONS_READ_MAX))
        ordered = sorted(read, key=lambda one: STATES.index(str(one["state"])))
        counts = {state: sum(one["state"] == state for one in read) for state in STATES}
        assert sum(counts.values()) == len(read), "each partition has one of the states"
        return {
            "version": cluster.version,
            "seconds": cluster.scheduler.now_us / 1_000_000,
            "controller": cluster.controller,
            "brokers": [self._broker(number) for number in cluster.brokers],
            "partitions": ordered[:PARTITIONS_MAX],
            "partitions_read": len(read),
            "counts": counts,
            "events": [_event(history[place]) for place in range(max(0, len(history) - EVENTS_MAX), len(history))],
        }

    def picture(self) -> str:
        """Return the page of what has happened so far, as that of a run: states over time, znodes and events."""
        from simzk.report.run_page import runs_page
        from simzk.scenarios.results import document_of_cluster
        from simzk.scenarios.run_tables import tables_of

        cluster = self._cluster
        running = sum(broker.alive and not broker.paused for broker in cluster.brokers.values())
        count, version = len(cluster.history), cluster.version
        latest = f"; the latest {PICTURE_EVENTS_MAX:,} of {count:,} events" if count > PICTURE_EVENTS_MAX else ""
        document: dict[str, object] = {
            "file": f"{len(cluster.brokers)} brokers{latest}",
            "title": f"Kafka {version}",
            "seed": cluster.seed,
            "kafka_version": version,
            "faults": None,
            "held": running == len(cluster.brokers),
            "crash": f"{running} of {len(cluster.brokers)} brokers run; controller {cluster.controller or 'none'}.",
            "replay": "",
            "rest": "the history of the cluster",
            "expectations": [],
            "violations": [],
            **document_of_cluster(cluster, events_max=PICTURE_EVENTS_MAX, partitions_max=PICTURE_PARTITIONS_MAX),
            "end_us": cluster.scheduler.now_us,
        }
        return runs_page([tables_of(document)])

    @property
    def picture_sources(self) -> tuple[str, str]:
        """Style and script of the picture, as sources of a Content Security Policy."""
        from simzk.report.page import sources

        return sources()

    def _broker(self, number: int) -> Json:
        cluster = self._cluster
        broker = cluster.brokers[number]
        return {
            "id": number,
            "state": "stopped" if not broker.alive else "paused" if broker.paused else "running",
            "registered": number in cluster.live_brokers,
            "controller": number == cluster.controller,
            "version": broker.version.name,
            "rack": broker.rack,
            "cut_off": [end for end in peer_ends(cluster, number, "") if cluster.network.is_cut(end_of(number), end)],
        }

    def _partitions(self) -> Iterator[Json]:
        cluster = self._cluster
        for topic in view.topics(cluster.tree):
            try:
                assigned = cluster.assignment(topic)
            except SimzkError as error:
                yield {"name": topic, "state": OFFLINE, "problem": str(error)}
                continue
            for number, replicas in sorted(assigned.items()):
                yield self._partition(topic, number, list(replicas.replicas))

    def _partition(self, topic: str, number: int, replicas: list[int]) -> Json:
        name = f"{topic}-{number}"
        try:
            state = self._cluster.state(topic, number)
        except SimzkError as error:
            return {"name": name, "state": OFFLINE, "replicas": replicas, "problem": str(error)}
        leader = self._cluster.brokers.get(state.leader)
        runs = leader is None or leader.alive
        short = len(state.isr) < len(replicas)
        return {
            "name": name,
            "state": OFFLINE if state.leader < 0 else SHORT if runs and short else IN_SYNC if runs else STOPPED,
            "leader": state.leader,
            "epoch": state.leader_epoch,
            "isr": list(state.isr),
            "replicas": replicas,
        }


def _event(event: Event) -> Json:
    change = " → ".join(part for part in (event.before, event.after) if part)
    at = format_time(event.at_us).strip()
    return {"at": at, "who": event.who, "what": event.what, "of": event.subject, "change": change}
