"""Creations and deletions of owner znodes, observed in the transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.zookeeper import transactions as txns
from tests.kafka.zookeeper_mode.consumer.groups import GROUP, check_at_rest, cluster, event_texts, rest

if TYPE_CHECKING:
    from simzk.kafka.cluster.cluster import KafkaCluster

OWNERS = f"/consumers/{GROUP}/owners/t"


class Owners:
    """Owners created and deleted from now on, by session."""

    def __init__(self, c: KafkaCluster) -> None:
        self.made: list[tuple[int, str]] = []
        self.deleted: list[tuple[int, str]] = []
        self.not_own: list[str] = []
        self._maker: dict[str, int] = {}
        c.server.on_transaction.append(self._see)

    def _see(self, transaction: txns.Transaction) -> None:
        match transaction.record:
            case txns.CreateTxn(path=path) if path.startswith(f"{OWNERS}/"):
                self.made.append((transaction.session_id, path))
                self._maker[path] = transaction.session_id
            case txns.DeleteTxn(path=path) if path.startswith(f"{OWNERS}/"):
                self.deleted.append((transaction.session_id, path))
                if self._maker.get(path, transaction.session_id) != transaction.session_id:
                    self.not_own.append(path)


def test_a_conflicting_attempt_deletes_its_owners_in_reverse() -> None:
    c = cluster({"t": 4})
    first = c.consumer(GROUP, {"t": 1}, consumer_id="a", version="0.8.2")
    c.run_for(2)
    first.close()
    c.run_for(1)
    c.write_znode(f"{OWNERS}/0", "somebody else")
    c.run_for(1)
    seen = Owners(c)
    second = c.consumer(GROUP, {"t": 1}, consumer_id="b", version="0.8.2")
    c.run_for(1)
    assert event_texts(c, "rebalance tried in vain", second.name) == ["others own t-0"]
    assert sorted(path for _, path in seen.made) == [f"{OWNERS}/{number}" for number in (1, 2, 3)]
    assert seen.deleted == seen.made[::-1]
    c.delete_znode(f"{OWNERS}/0")
    rest(c, [first, second])
    check_at_rest(c, [first, second])


def test_a_new_session_drops_owned_partitions_without_deleting_owners() -> None:
    c = cluster({"t": 2})
    seen = Owners(c)
    members = [c.consumer(GROUP, {"t": 1}, consumer_id=name, version="0.8.2") for name in ("a", "b")]
    rest(c, members)
    check_at_rest(c, members)
    members[0].expire()
    c.network.cut(members[0].name, "zookeeper")  # it does not learn of it until the other has taken all
    c.run_for(10)
    assert len(members[1].owned()) == 2
    c.network.heal(members[0].name, "zookeeper")
    rest(c, members)
    check_at_rest(c, members)
    assert seen.deleted
    assert not seen.not_own
