"""Mistakes of coordinators, fetch sessions and logs that the swarm of clients catches.

The scenario is the shipped one, scenarios/anything_breaks_clients.toml.
"""

from __future__ import annotations

from functools import partial

from tests.canaries.swarm_mistake import SwarmMistake

_GROUP = "kafka/coordinator/group.py"
_GROUPS = "kafka/coordinator/group_coordinator.py"
_TRANSACTION = "kafka/coordinator/transaction.py"
_TRANSACTIONS = "kafka/coordinator/transaction_coordinator.py"
_MARKERS = "kafka/coordinator/marker_channels.py"
_AT_LEADERS = "kafka/broker/transaction_markers.py"
_SESSIONS = "kafka/client_requests/records/fetch_sessions.py"
_FETCH = "kafka/client_requests/records/fetch.py"
_OFFSETS = "kafka/client_requests/records/log_offsets.py"
_PRODUCERS = "kafka/log/producer_state.py"
_LOG = "kafka/log/log.py"
_COMPACTION = "kafka/log/compaction.py"
_REPLICAS = "kafka/broker/replica_logs.py"
_WATCHES = "zookeeper/watches.py"
_CLIENT = "kafka/zookeeper_mode/client/session.py"
_SESSION_TRACKER = "zookeeper/sessions.py"
_mistake = partial(SwarmMistake, scenario="clients")

CLIENT_MISTAKES: dict[str, SwarmMistake] = {
    # Groups
    "a loaded group begins with generation 0": _mistake(
        _GROUP,
        "        self.generation, self.leader = stored.generation, stored.leader\n",
        "        self.generation, self.leader = 0, stored.leader\n",
    ),
    "a request of an old generation is accepted": _mistake(
        _GROUP,
        "if error == ErrorCode.NONE and generation != self.generation:",
        "if error == ErrorCode.NONE and generation > self.generation:",
    ),
    "a member without heartbeats stays": _mistake(
        _GROUP, "        if member.is_new or not member.waits:\n", "        if member.is_new:\n"
    ),
    "heartbeats do not keep a member": _mistake(
        _GROUP,
        "        self._expect_heartbeat(self._members[member_id])\n        is_preparing",
        "        is_preparing",
    ),
    "all members get the assignment of the first": _mistake(
        _GROUP,
        "                    member.assignment = stored[member.member_id]\n",
        "                    member.assignment = next(iter(stored.values()))\n",
    ),
    "a static member that restarts makes its group rebalance": _mistake(
        _GROUP,
        "self._choose_protocol() != self.protocol_name:",
        "self._choose_protocol() == self.protocol_name:",
    ),
    "a loaded group has no offsets": _mistake(
        _GROUPS, "entry.offsets = loaded.offsets.get(group_id, {})", "entry.offsets = {}"
    ),
    "a former coordinator keeps its groups": _mistake(
        _GROUPS,
        "(shard := self._shards.pop(partition.partition, None)) is not None:",
        "(shard := self._shards.get(partition.partition, None)) is None:",
    ),
    "an offset is committed before it is stored": _mistake(
        _GROUPS,
        "            entry.pending.update(dict.fromkeys(stored, number))\n",
        "            entry.pending.update(dict.fromkeys(stored, number))\n"
        "            respond(dict.fromkeys(stored, ErrorCode.NONE))\n"
        "            respond = lambda _: None\n",
    ),
    "offsets of a transaction stay open after its marker": _mistake(
        _GROUPS,
        "pending = entry.in_transactions.pop(producer_id, {})",
        "pending = entry.in_transactions.get(producer_id, {})",
    ),
    "offsets of an aborted transaction are committed": _mistake(
        _GROUPS,
        "            if is_commit:\n                _commit_pending(entry.offsets, pending)\n",
        "            _commit_pending(entry.offsets, pending)\n",
    ),
    "offsets of loaded transactions are committed although it was aborted": _mistake(
        _GROUPS, 'ended.items() if producer.marker == "commit" else ():', "ended.items():"
    ),
    # Transactions
    "a fenced producer ends its transaction": _mistake(
        _TRANSACTIONS,
        "        if not accepts_epoch:\n            respond(ErrorCode.PRODUCER_FENCED)\n",
        "        if False:\n            respond(ErrorCode.PRODUCER_FENCED)\n",
    ),
    "a fence does not raise the epoch": _mistake(
        _TRANSACTION,
        "epoch = stored.epoch if self.has_failed_fence else stored.epoch + 1",
        "epoch = stored.epoch",
    ),
    "a new producer has the epoch of the one before": _mistake(
        _TRANSACTION, "        bumped = stored.epoch + 1\n", "        bumped = max(stored.epoch, 0)\n"
    ),
    "transactions have no timeout": _mistake(
        _TRANSACTIONS,
        "if is_open and one.stored.start_ms + one.stored.timeout_ms < now_ms:",
        "if is_open and one.stored.start_ms + 1000 * one.stored.timeout_ms < now_ms:",
    ),
    "a new coordinator does not end prepared transactions": _mistake(
        _TRANSACTIONS,
        "            if transaction.state in PREPARED:\n                self._send_markers(shard, transaction)\n",
        "            if transaction.state in PREPARED and not shard.transactions:\n"
        "                self._send_markers(shard, transaction)\n",
    ),
    "a commit that is loaded is aborted": _mistake(
        _TRANSACTIONS,
        "transaction.state == TransactionState.PREPARE_COMMIT\n        completion",
        "transaction.state == TransactionState.PREPARE_COMMIT and self._has_timers is None\n        completion",
    ),
    "only the first partition of a transaction gets a marker": _mistake(
        _TRANSACTIONS,
        "self.markers.add(ended, list(stored.partitions))",
        "self.markers.add(ended, list(stored.partitions)[:1])",
    ),
    "a partition that is added later is forgotten": _mistake(
        _TRANSACTIONS,
        "set(partitions) <= set(transaction.stored.partitions):",
        "transaction.stored.partitions:",
    ),
    "markers are not sent again after a disconnection": _mistake(
        _MARKERS,
        "            for marker in markers:\n                self._retry(*marker)\n            return\n",
        "            return\n",
    ),
    "a marker without a leader is given up": _mistake(
        _MARKERS, "        self._retry(transaction, unknown)\n", "        del unknown\n"
    ),
    "a marker is answered before it is stored": _mistake(
        _AT_LEADERS,
        "            if code == ErrorCode.NONE:\n                self.on_marker(",
        "            if code != ErrorCode.NONE:\n                code = ErrorCode.NONE\n"
        "            else:\n                self.on_marker(",
    ),
    # Logs
    "the last stable offset ignores open transactions": _mistake(
        _PRODUCERS,
        "        first = next(iter(self.open.values()), None)\n",
        "        first = None\n",
    ),
    "an aborted transaction is not listed": _mistake(
        _PRODUCERS,
        "return [one for one in self.ended[since:] if one.is_aborted and one.first_offset < end]",
        "return [one for one in self.ended[since:] if one.is_aborted and one.first_offset < end][1:]",
    ),
    "a truncated log keeps its producers": _mistake(
        _LOG,
        "        if self.producers is not None:\n            self.producers = ProducerStates(self._batches, lists",
        "        if self.producers is None:\n            self.producers = ProducerStates(self._batches, lists",
    ),
    "only the last batch of a producer is recognized": _mistake(
        _PRODUCERS, "for kept in entry.batches[-rules.kept :]:", "for kept in entry.batches[-1:]:"
    ),
    "followers do not delete what their leader deleted": _mistake(
        _REPLICAS,
        "        return self._delete_before(replica, min(offset, replica.high_watermark))\n",
        "        return False and self._delete_before(replica, min(offset, replica.high_watermark))\n",
    ),
    "a deletion does not wait for followers": _mistake(
        _REPLICAS, "        return min([replica.log.start, *starts])\n", "        return replica.log.start\n"
    ),
    "one record too many is deleted": _mistake(
        _LOG,
        "        removed = bisect_right(self._batches, offset, key=_NEXT_OFFSET)\n        over",
        "        removed = bisect_right(self._batches, offset, key=_NEXT_OFFSET) + 1\n"
        "        removed = min(removed, len(self._batches) - 1)\n        over",
    ),
    "a batch that is sent again is appended again": _mistake(
        _PRODUCERS,
        "    expected = 0\n    if stamp.epoch == entry.epoch:\n",
        "    expected = first\n    if stamp.epoch != entry.epoch:\n",
    ),
    "compaction removes the newest value of a key": _mistake(
        _COMPACTION,
        "                newest[record.key] = record.offset\n",
        "                newest[record.key] = record.offset + 1\n",
    ),
    # Fetch sessions
    "a session keeps partitions that were forgotten": _mistake(
        _SESSIONS,
        "            session.partitions.pop(partition, None)\n            session.sent",
        "            session.sent",
    ),
    "a session keeps the offsets of its first request": _mistake(
        _SESSIONS,
        "        session.update(asked, self._name_of)\n",
        "        new = {key: one for key, one in asked.items() if key not in session.partitions}\n"
        "        session.update(new, self._name_of)\n",
    ),
    "a session does not tell a new high watermark": _mistake(
        _SESSIONS, "        is_due = has_news or self.sent.get(partition) != now\n", "        is_due = has_news\n"
    ),
    "a session takes what it did not send as sent": _mistake(
        _FETCH,
        "Sent(read.replica.log.high_watermark, read.replica.log.start)",
        "Sent(read.replica.log.high_watermark, 0)",
    ),
    "a session does not count its requests": _mistake(
        _SESSIONS,
        "        self.epoch = 1 if self.epoch == _MAX_EPOCH else self.epoch + 1\n",
        "        self.epoch = max(self.epoch, 1)\n",
    ),
    "readers of committed records see the end of open transactions": _mistake(
        _FETCH,
        "        limit = log.last_stable_offset if is_committed else log.high_watermark\n",
        "        limit = log.high_watermark\n",
    ),
    # Watches and sessions of ZooKeeper
    "a watch stays after its event": _mistake(
        _WATCHES,
        "            if modes & _STANDARD:\n                self._set(path, watcher, modes, modes & ~_STANDARD)\n",
        "",
    ),
    "a deleted znode gives no event to its data watches": _mistake(
        _WATCHES,
        "        notified = self.data.trigger(path, kind) if self.data else {}\n",
        "        notified = self.data.trigger(path, kind) if self.data and kind != EventType.NODE_DELETED else {}\n",
    ),
    "a parent gives no event for a new child": _mistake(
        _WATCHES,
        "        above = self.child.trigger(parent_path, _CHILDREN_CHANGED)\n",
        "        is_seen = kind != EventType.NODE_CREATED\n"
        "        above = self.child.trigger(parent_path, _CHILDREN_CHANGED) if is_seen else {}\n",
    ),
    "a session expires a tick too early": _mistake(
        _SESSION_TRACKER,
        "+ timeout_ms) // self._tick_ms + 1) * self._tick_ms",
        "+ timeout_ms) // self._tick_ms - 1) * self._tick_ms",
    ),
    "watches that are set again miss a change": _mistake(
        "zookeeper/reads.py",
        "            elif node.mzxid > since:\n",
        "            elif node.mzxid > since + 1_000_000_000:\n",
    ),
    "a quota does not count what is deleted": _mistake(
        "zookeeper/quotas.py",
        "                for key, change in ((COUNT, nodes), (BYTES, size)):\n",
        "                for key, change in ((COUNT, max(nodes, 0)), (BYTES, size)):\n",
    ),
    "a session that is attached again has its old timeout": _mistake(
        "zookeeper/server.py",
        "        self.sessions.touch(session, now_ms, timeout_ms)\n        return True\n",
        "        self.sessions.touch(session, now_ms, session.timeout_ms)\n        return True\n",
    ),
    "a deleted znode's child watch is set again": _mistake(
        _CLIENT,
        "            deleted = [self._child_watches] if kind == EventType.NODE_DELETED else []\n",
        "            deleted: list[dict[str, None]] = []\n",
    ),
    "an expired session leaves watches to the next": _mistake(
        _CLIENT,
        "        self._exist_watches.clear()\n        self._child_watches.clear()\n",
        "        self._child_watches.clear()\n",
    ),
    # Found missing on 2026-11-28 by somebody who had not seen the others
    "a transaction begins when the one before did": _mistake(
        _TRANSACTION,
        "        is_open = stored.state == TransactionState.ONGOING\n        return self._prepared(",
        "        is_open = stored.start_ms != NO_START\n        return self._prepared(",
    ),
    "a partition that is added to a session again is left out": _mistake(
        _SESSIONS,
        "            session.sent.pop(partition, None)\n",
        "",
    ),
    "a group is removed that has only offsets of a transaction": _mistake(
        _GROUPS,
        "        has_offsets = entry.offsets or entry.pending or entry.in_transactions\n",
        "        has_offsets = entry.offsets or entry.pending\n",
    ),
}
