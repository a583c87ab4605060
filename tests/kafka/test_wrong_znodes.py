"""Whatever somebody writes wrong into any znode of a running cluster, of any release: the simulation goes on, and what
Kafka promises of its znodes holds as far as nobody wrote it otherwise.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simzk.kafka.cluster.cluster import KafkaCluster
from simzk.kafka.zookeeper_mode import paths
from tests.kafka.test_readers import BARE, FORMS, mistakes

pytestmark = pytest.mark.slow

CONFIG = {"zookeeper.session.timeout.ms": 6000, "delete.topic.enable": True}
RELEASES = ("0.8.1", "0.9", "0.10.2", "1.1", "2.3", "2.8", "3.9")
PLACES = {
    **{path: form for path, (form, _) in FORMS.items() if path.split("/")[1] not in ("consumers", "migration")},
    **BARE,
    "/brokers/ids/²": FORMS["/brokers/ids/1"][0],
    "/brokers/ids/9": FORMS["/brokers/ids/1"][0],
    "/brokers/ids/-5": FORMS["/brokers/ids/1"][0],
    "/brokers/topics/n": FORMS["/brokers/topics/t"][0],
    "/brokers/topics/t/partitions/²/state": FORMS["/brokers/topics/t/partitions/0/state"][0],
    "/config/changes/config_change_²": FORMS["/config/changes/config_change_1"][0],
    "/admin/delete_topics/t": "x",
    "/admin/delete_topics/²": "x",
    "/config/brokers/1": FORMS["/config/topics/t"][0],
}


@settings(max_examples=4, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@pytest.mark.parametrize("release", RELEASES)
@given(data=st.data())
def test_nothing_that_is_written_wrong_ends_the_simulation(release: str, data: st.DataObject) -> None:
    with KafkaCluster(release, brokers=3, config=CONFIG) as c:
        c.create_topic("t", assignment={0: (1, 2), 1: (2, 3)})
        c.create_topic("u", assignment={0: (3, 1)})
        c.run_for(3)
        before = c.state("u", 0)
        for _ in range(data.draw(st.integers(1, 3))):
            path = data.draw(st.sampled_from(sorted(PLACES)))
            written = data.draw(st.none() | mistakes(PLACES[path]))
            c.write_znode(path, written)
            c.run_for(data.draw(st.sampled_from([0, 1, 3])))
        c.elect()
        c.alter_config("topics/u", {"retention.ms": "1"})
        c.kill(data.draw(st.sampled_from([1, 2, 3])))
        c.run_for(8)
        for broker in (1, 2, 3):
            if not c.brokers[broker].alive:
                c.restart(broker)
        c.run_for(5)
        c.delete_znode(paths.CONTROLLER)
        c.run_for(5)
        assert c.controller is None or isinstance(c.controller, int)
        assert all(broker >= 0 for broker in c.live_brokers)
        c.run_until_quiet(1)
        assert c.history.to_text()
        # What nobody wrote by hand keeps its promises: versions and epochs never fall, the leader is in the ISR.
        after = c.state("u", 0)
        assert (after.leader_epoch, after.version) >= (before.leader_epoch, before.version)
        assert after.leader == -1 or after.leader in after.isr
        assert set(after.isr) <= {1, 3}
