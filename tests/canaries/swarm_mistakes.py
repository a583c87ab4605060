"""Mistakes of brokers and controllers that the swarm catches, not only a unit test.

`right` is in the file once, `wrong` is what a tired engineer might write instead. `swarm_seeds.json` says for each with
which seed the swarm catches it first; `python -m tests.canaries.find_seeds` finds the seeds anew.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from tests.canaries.client_mistakes import CLIENT_MISTAKES
from tests.canaries.swarm_mistake import SwarmMistake

SEEDS = Path(__file__).with_name("swarm_seeds.json")


class Caught(NamedTuple):
    """The first seed with which the swarm catches a mistake, and what failed."""

    seed: int
    by: str


_LOGS = "kafka/broker/replica_logs.py"
_LOG = "kafka/log/log.py"
_TRUNCATION = "kafka/log/truncation.py"
_EPOCHS = "kafka/log/leader_epochs.py"
_ACCEPTED = "kafka/broker/replica_manager.py"
_ISR = "kafka/broker/isr_changes.py"
_FETCHING = "kafka/broker/fetching.py"
_PRODUCING = "kafka/broker/producing.py"
_BROKER = "kafka/broker/broker.py"
_ELECTIONS = "partitions/transitions.py"
_RULES = "partitions/rules.py"
_STATES = "kafka/zookeeper_mode/controller/state_machines.py"
_CONTROLLER = "kafka/zookeeper_mode/controller/controller.py"
_CLUSTER_CHANGES = "kafka/zookeeper_mode/controller/cluster_changes.py"
_REQUESTED = "kafka/zookeeper_mode/controller/leadership_changes.py"
_CHANNELS = "kafka/zookeeper_mode/controller/channels.py"
_CLIENT = "kafka/zookeeper_mode/client/zk_client.py"

SWARM_MISTAKES: dict[str, SwarmMistake] = {
    # The ISR
    "a follower joins the ISR before it has caught up": SwarmMistake(
        _LOGS,
        "leader.followers[follower].log_end >= max(leader.high_watermark, leader.epoch_start if waits else 0)",
        "leader.followers[follower].log_end >= 0",
    ),
    "no follower joins the ISR again": SwarmMistake(
        _LOGS,
        "            self._isrs.expand(self._rows([replica.partition]), follower, np.ones(1, dtype=np.bool_))\n",
        "            self._isrs.expand(self._rows([replica.partition]), follower, np.zeros(1, dtype=np.bool_))\n",
    ),
    # The high watermark and acknowledgements
    "the high watermark does not wait for followers": SwarmMistake(
        _LOGS,
        "            if progress.log_end < least and (\n",
        "            if progress.log_end < least < 0 and (\n",
    ),
    "a new leader takes its whole log as committed": SwarmMistake(
        _LOGS,
        "        replica.epoch_start = log.end\n",
        "        replica.epoch_start = log.end\n        log.set_high_watermark(log.end)\n",
    ),
    "a new leader takes its followers for caught up": SwarmMistake(
        _LOGS,
        "known.get(broker) or FollowerProgress(caught_up_us",
        "known.get(broker) or FollowerProgress(log.end, caught_up_us",
    ),
    "records that were sent to a follower count as fetched": SwarmMistake(
        _LOGS,
        "        progress.log_end, progress.has_fetched = log_end, True\n",
        "        progress.log_end, progress.has_fetched = replica.log_end, True\n",
    ),
    "acks of all are sent when the leader has the records": SwarmMistake(
        _PRODUCING,
        "        return replica.high_watermark >= required\n",
        "        return replica.log_end >= required\n",
    ),
    "acks of all are sent before the last records are committed": SwarmMistake(
        _PRODUCING,
        "        required = waiting.base_offset + request.records\n",
        "        required = waiting.base_offset\n",
    ),
    "min.insync.replicas is not checked after the append": SwarmMistake(
        _PRODUCING,
        "        return ErrorCode.NONE if enough else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND\n",
        "        return ErrorCode.NONE if enough or request.records else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND\n",
        "2.4",
    ),
    # Fetching and truncation
    "a longer follower log is not cut": SwarmMistake(
        _TRUNCATION,
        "    return Truncation(min(own.end_offset, offset), True)\n",
        "    return Truncation(min(own.end_offset, log.end), True)\n",
        "2.4",
    ),
    "the leader does not compare the follower's last epoch": SwarmMistake(
        _LOGS,
        "            if found.epoch < last_epoch or found.end_offset < log_end:\n",
        "            if False:\n",
    ),
    "a follower of 2.4 does not truncate": SwarmMistake(
        _LOGS,
        "            replica.truncates = not replica.log.is_empty and not by_fetch\n",
        "            replica.truncates = False\n",
        "2.4",
    ),
    "a truncation stops one record too early": SwarmMistake(
        _LOG,
        "        del self._batches[bisect_right(self._batches, offset, key=_NEXT_OFFSET) :]\n",
        "        del self._batches[bisect_right(self._batches, offset, key=_NEXT_OFFSET) + 1 :]\n",
    ),
    "an epoch ends where it starts": SwarmMistake(
        _EPOCHS,
        "        end_offset = self._entries[following].start_offset\n",
        "        end_offset = self._entries[max(0, following - 1)].start_offset\n",
    ),
    "a started broker has an empty log": SwarmMistake(
        _BROKER,
        "        self.logs = self.replicas.on_disk()\n",
        "        self.logs = {}\n",
    ),
    # Fencing
    "a stale LeaderAndIsr is obeyed": SwarmMistake(
        _ACCEPTED,
        "    newer: BoolArray = leader_epoch > accepted\n",
        "    newer: BoolArray = np.ones_like(leader_epoch > accepted)\n",
    ),
    "the same LeaderAndIsr is obeyed twice": SwarmMistake(
        _ACCEPTED,
        "    newer: BoolArray = leader_epoch > accepted\n",
        "    newer: BoolArray = leader_epoch >= accepted\n",
    ),
    "an old controller is obeyed": SwarmMistake(
        _ACCEPTED,
        '        codes[controller_epoch < self._controller_epoch.take(brokers, mode="clip")] = '
        "ErrorCode.STALE_CONTROLLER_EPOCH\n",
        "",
        scenario="zombies",
    ),
    "a controller does not raise the controller epoch": SwarmMistake(
        _CLIENT,
        "controller_schema.encode_epoch(next_int(epoch)), version)\n        results",
        "controller_schema.encode_epoch(epoch), version)\n        results",
    ),
    "a new controller reads no epoch": SwarmMistake(
        _CLIENT,
        "            return next_int(epoch), version + 1\n        if codes[0]",
        "            return epoch, version + 1\n        if codes[0]",
    ),
    # Elections
    "a controlled shutdown ignores the ISR": SwarmMistake(
        _ELECTIONS,
        "        successor = first(replicas, registered & contained(replicas, new_isr))\n",
        "        successor = first(replicas, registered & ~among(replicas, shutting_down))\n",
    ),
    "a controlled shutdown leaves the broker in the ISR": SwarmMistake(
        _ELECTIONS,
        "    staying = (isr != NONE) & ~among(isr, shutting_down)\n",
        "    staying = isr != NONE\n",
    ),
    "any live replica is elected": SwarmMistake(
        _ELECTIONS,
        "        leader = first(replicas, alive & contained(replicas, isr))\n",
        "        leader = first(replicas, alive)\n",
    ),
    "a dead member of the ISR is elected": SwarmMistake(
        _ELECTIONS,
        "        leader = first(replicas, alive & contained(replicas, isr))\n",
        "        leader = first(replicas, contained(replicas, isr))\n",
    ),
    "a preferred replica outside the ISR is elected": SwarmMistake(
        _ELECTIONS,
        "    eligible = live_members(head, live, on_offline_dirs) & contained(head, isr) & needed\n",
        "    eligible = live_members(head, live, on_offline_dirs) & needed\n",
    ),
    "an election does not raise the leader epoch": SwarmMistake(
        _ELECTIONS,
        "        leader_epoch=states.leader_epoch + writes,\n",
        "        leader_epoch=states.leader_epoch,\n",
    ),
    "the last member leaves the ISR": SwarmMistake(
        _RULES,
        "replace(RULES[0, 10, 0], last_member=LastMember.KEPT, ",
        "replace(RULES[0, 10, 0], last_member=LastMember.EMPTIED, ",
    ),
    # The controller
    "a new controller does not look for dead leaders": SwarmMistake(
        _CONTROLLER,
        "        await self.partitions.start()\n",
        "",
    ),
    "a controller does not handle dead brokers": SwarmMistake(
        _CLUSTER_CHANGES,
        "                del context.brokers[broker]\n            await self._fail(dead)\n",
        "                del context.brokers[broker]\n",
    ),
    "a broker that starts gets no LeaderAndIsr": SwarmMistake(
        _CLUSTER_CHANGES,
        "await self._replicas.handle_rows(rows, brokers_of_rows, ReplicaState.ONLINE)\n        await self._part",
        "await self._part",
    ),
    "a broker registers no more after its session expired": SwarmMistake(
        _CONTROLLER,
        "            await self.on_registered()\n",
        "",
    ),
    # More of the same rooms
    "the high watermark is the log end offset of the fastest follower": SwarmMistake(
        _LOGS,
        "                least = progress.log_end\n        return least\n",
        "                least = max(one.log_end for one in replica.followers.values())\n        return least\n",
    ),
    "a replica forgets the leader epoch that it has accepted": SwarmMistake(
        _ACCEPTED,
        "        np.copyto(leaders.epoch, states.leader_epoch[:, None], where=accepted)\n",
        "",
    ),
    "a started broker has the leader epochs of its last process": SwarmMistake(
        _BROKER,
        "        self._environment.manager.forget(self.id)\n",
        "",
    ),
    "an unclean leader is elected although that is disabled": SwarmMistake(
        _ELECTIONS,
        "    unclean = ~any_of(in_sync) & any_of(alive) & (rules.always_unclean | np.asarray(unclean_allowed))\n",
        "    unclean = ~any_of(in_sync) & any_of(alive) & (np.asarray(unclean_allowed) | True)\n",
    ),
    "a leader that leaves the ISR stays leader": SwarmMistake(
        _ELECTIONS,
        "    new_leader = choose(changed & (leader == removed), np.int32(NONE), leader)\n",
        "    new_leader = leader\n",
    ),
    "the members that keep up leave the ISR": SwarmMistake(
        _ELECTIONS,
        "    return without(in_set_order(isr, scala), leaving)\n",
        "    members = in_set_order(isr, scala)\n    return keep(members, contained(members, leaving))\n",
    ),
    "a controller writes states with the epoch of the one before": SwarmMistake(
        _ELECTIONS,
        "        controller_epoch=epoch if changed is None else choose(changed, epoch, states.controller_epoch),\n",
        "        controller_epoch=states.controller_epoch,\n",
    ),
    "a controller does not send the leaders that it elects": SwarmMistake(
        _STATES,
        "            self._channels.add_leaders(rows[is_written], taken(recipients, order[is_written]))\n",
        "",
    ),
    "a controller that starts a term sees no live broker": SwarmMistake(
        _CONTROLLER,
        "        for broker in sorted(context.brokers):\n            self._channels.add_broker(broker)\n",
        "",
    ),
} | CLIENT_MISTAKES


def caught_by_swarm() -> dict[str, Caught]:
    """Return for each mistake how the swarm catches it."""
    return {name: Caught(*found) for name, found in json.loads(SEEDS.read_text()).items()}
