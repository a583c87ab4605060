"""Small known mistakes, each with the test that must notice it.

A mistake is a text of a source file and what stands there instead. Where the text is no longer there the canary says
so: write the mistake anew for the code as it is now.
"""

from __future__ import annotations

from typing import NamedTuple


class Mistake(NamedTuple):
    """`file` is of the package; `right` stands in it once; `caught_by` is a test's node id below tests/."""

    file: str
    right: str
    wrong: str
    caught_by: str


_STORE = "zookeeper/test_reference_assertions.py::"
_RULES = "zookeeper/test_small_rules.py::"
_WIRE = "wire/test_connections.py::"
_MESSAGES = "kafka/protocol/"
_TCP = "serve/test_tcp.py::"
_ACCESS = "serve/test_admin_access.py::"
_SCHEDULER = "simulation/test_scheduler.py::"
_STREAMS = "simulation/test_streams.py::"
_ELECTIONS = "partitions/test_elections.py::"
_FAILURES = "kafka/test_failures.py::"
_TRACES = "kafka/test_traces.py::"
_PLANS = "kafka/test_plans.py::"
_WHAT_IF_PLAN = "partitions/test_plan_what_if.py::"
_STORIES = "kafka/test_stories.py::test_a_step_leaves_and_writes_what_was_recorded"
_COLUMNS = "kafka/zookeeper_mode/columnar/"
_DELETED = "kafka/test_deleted_topics.py::"
_GROUPS = "kafka/client_requests/"
_SECURITY = "kafka/security/"
_REBALANCES = "kafka/coordinator/test_group.py::"
_TRANSACTIONS = "kafka/coordinator/test_transaction_coordinator.py::"
_LOGS = _GROUPS + "test_recorded_logs.py::test_logs_are_those_of_real_brokers"
_BUGS = "scenarios/test_bugs.py::test_each_release_has_the_named_outcome_and_not_the_other"
_WITHOUT = "scenarios/test_bugs.py::test_a_release_without_the_bug_breaks_no_condition"
_LOGINS = _SECURITY + "test_recorded_logins.py::test_logins_and_permissions_are_those_of_real_brokers"
_STREAM = "pipeline/test_log_follower.py::"
_SWEEP = "pipeline/test_sweep_tables.py::"

MISTAKES: dict[str, Mistake] = {
    # Security at brokers' ports
    "a login is renewed by another user": Mistake(
        "kafka/security/login.py",
        "            if self._before is not None and self._before.user != self.user:\n",
        "            if self._before is not None and not self.user:\n",
        _SECURITY + "test_login.py::test_a_session_cannot_change_its_user_or_mechanism",
    ),
    "the nonce of a login is not checked": Mistake(
        "kafka/security/mechanisms.py",
        "if self.checks_nonce and message",
        "if not self._nonce and message",
        _SECURITY + "test_mechanisms.py::test_a_replayed_nonce_is_accepted_by_old_releases_only",
    ),
    "every failure of a bare token waits": Mistake(
        "kafka/security/login.py",
        "return self._failed(None, failure.reason) if failure.told else self._closed(failure.reason)",
        "return self._failed(None, failure.reason)",
        _LOGINS + "[3.9.1]",
    ),
    "a session of bare tokens has no end": Mistake(
        "kafka/security/login.py",
        "ends_bare: bool = since((2, 7))",
        "ends_bare: bool = since((4, 0))",
        _LOGINS + "[2.7.2]",
    ),
    "a partition that does not exist is not attempted": Mistake(
        "kafka/client_requests/authorization.py",
        "if not is_addable(named, self.broker.cache, self.broker.version.number):",
        "if not named.topic:",
        _LOGINS + "[2.8.2]",
    ),
    "every producer may write idempotently": Mistake(
        "kafka/client_requests/authorization.py",
        "self.broker.version.number < _WRITES_IDEMPOTENTLY\n            and _is_idempotent",
        "False\n            and _is_idempotent",
        _LOGINS + "[2.4.1]",
    ),
    "metadata of all topics has those that a client may not describe": Mistake(
        "kafka/client_requests/authorization.py",
        """[one for one in found.topics if self._allows("Describe", TOPIC, one.name or "")]""",
        """[one for one in found.topics if self._allows("Describe", TOPIC, one.name or "") or True]""",
        _SECURITY + "test_principals.py::test_metadata_has_what_the_user_may_describe",
    ),
    "a login has the permissions of anonymous clients": Mistake(
        "kafka/client_requests/broker_api.py",
        """            self.principal = f"User:{login.user}"\n""",
        """            self.principal = ANONYMOUS\n""",
        _SECURITY + "test_principals.py::test_acls_are_described_to_those_who_may",
    ),
    "who has logged in by a token asks for another": Mistake(
        "kafka/client_requests/admin/tokens.py",
        "context.principal != ANONYMOUS and not context.by_token",
        "context.principal != ANONYMOUS",
        _SECURITY + "test_tokens.py::test_a_token_logs_in_its_owner_at_every_broker",
    ),
    "a session outlives its lifetime": Mistake(
        "kafka/security/login.py",
        "self._rules.now_ms() > self.ends_ms",
        "self._rules.now_ms() > 2 * self.ends_ms",
        _SECURITY + "test_login.py::test_a_session_lasts_as_long_as_the_setting_says",
    ),
    # Transactions
    "the last stable offset ignores an open transaction": Mistake(
        "kafka/log/producer_state.py",
        "        first = next(iter(self.open.values()), None)\n",
        "        first = None\n",
        "kafka/log/test_producer_state.py::test_the_last_stable_offset_waits_for_the_marker[commit]",
    ),
    "a marker counts before it is committed": Mistake(
        "kafka/log/producer_state.py",
        "            if ended.last_offset < high_watermark:\n",
        "            if ended.last_offset <= high_watermark:\n",
        "kafka/log/test_producer_state.py::test_the_last_stable_offset_waits_for_the_marker[abort]",
    ),
    "a former coordinator ends a transaction": Mistake(
        "kafka/log/producer_state.py",
        "stamp.coordinator_epoch < entry.coordinator_epoch",
        "stamp.coordinator_epoch < 0",
        "kafka/log/test_producer_state.py::test_a_marker_is_fenced_by_the_epochs_of_producer_and_coordinator",
    ),
    "compaction keeps the first record of a key": Mistake(
        "kafka/log/compaction.py",
        "                newest[record.key] = record.offset\n",
        "                newest.setdefault(record.key, record.offset)\n",
        _LOGS,
    ),
    "compaction deletes tombstones at once": Mistake(
        "kafka/log/compaction.py",
        "            keeps_deletes = horizon_ms is None or self.now_ms < horizon_ms\n",
        "            keeps_deletes = horizon_ms is not None and self.now_ms < horizon_ms\n",
        _LOGS,
    ),
    "an aborted record counts as the last of its key": Mistake(
        "kafka/log/compaction.py",
        "        if transactions.discards(batch) or (batch.producer",
        "        if (batch.producer",
        "kafka/log/test_compaction.py::test_compaction_keeps_the_last_value_of_each_key",
    ),
    "compaction does not stop at an open transaction": Mistake(
        "kafka/log/compaction.py",
        "        limits.append(log.last_stable_offset)\n",
        "        limits.append(log.high_watermark)\n",
        "kafka/log/test_compaction.py::test_compaction_keeps_the_last_value_of_each_key",
    ),
    "the last batch of a producer is compacted away": Mistake(
        "kafka/log/compaction.py",
        "            return entry.batches[-1].last_offset == batch.next_offset - 1\n",
        "            return False\n",
        "kafka/log/test_compaction.py::test_producers_go_on_after_a_compaction",
    ),
    "records that are not committed are too old": Mistake(
        "kafka/log/segments.py",
        "(rules.keeps_uncommitted_segments and high_watermark < upper)",
        "(rules.keeps_uncommitted_segments and high_watermark < segment.base_offset)",
        "kafka/log/test_compaction.py::test_retention_deletes_the_first_segments",
    ),
    "a segment is full when it is too large": Mistake(
        "kafka/log/segments.py",
        "        if self.size_bytes > config.segment_bytes - added.size_bytes:\n",
        "        if self.size_bytes > config.segment_bytes:\n",
        "kafka/log/test_compaction.py::test_a_segment_is_not_larger_than_its_limit",
    ),
    "an aborted transaction is unknown beyond its records": Mistake(
        "kafka/log/log.py",
        "self.producers.aborted_between(offset, self._upper_bound(offset, end))",
        "self.producers.aborted_between(offset, end)",
        "kafka/log/test_transactions.py::test_a_consumer_learns_of_an_aborted_transaction_up_to_the_next_entry_of_the_index",
    ),
    "aborted offsets are committed": Mistake(
        "kafka/coordinator/group_coordinator.py",
        "            if is_commit:\n                _commit_pending(entry.offsets, pending)\n",
        "            _commit_pending(entry.offsets, pending)\n",
        "kafka/coordinator/test_transactional_offsets.py::test_an_abort_drops_the_offsets",
    ),
    "offsets of a transaction are stable before its marker": Mistake(
        "kafka/coordinator/group_coordinator.py",
        "            if stable and entry.is_unstable(partition):\n",
        "            if stable and partition in entry.pending:\n",
        "kafka/coordinator/test_transactional_offsets.py::test_offsets_are_unstable_until_the_marker",
    ),
    # Risk
    "a rack's failure takes down what was down already": Mistake(
        "partitions/risk/cut_sets.py",
        "rates.rack_fail[rack] * (1 - all_of_rack) * rack_up",
        "rates.rack_fail[rack] * rack_up",
        "partitions/risk/test_cut_sets.py::test_share_of_time_and_frequency_equal_enumeration",
    ),
    "a draw counts once for each cut that goes down": Mistake(
        "partitions/risk/assess.py",
        "    counted = 1.0 / (down_after - down_before)\n",
        "    counted = 1.0 / np.minimum(down_after - down_before, 1)\n",
        "partitions/risk/test_unions.py::test_samples_estimate_the_enumerated_union",
    ),
    "what is rare and lasts is drawn as seldom as it happens": Mistake(
        "partitions/risk/assess.py",
        "    edges = np.cumsum(minimal.per_year / often + minimal.share / share)\n",
        "    edges = np.cumsum(minimal.per_year / often)\n",
        "partitions/risk/test_unions.py::test_confidence_intervals_cover",
    ),
    "an interval is as narrow as the draws are alike": Mistake(
        "partitions/risk/assess.py",
        "2 * weight.most**2 * (share**2 + (1 - share) ** 2)",
        "0.0",
        "partitions/risk/test_unions.py::test_confidence_intervals_cover",
    ),
    # The store
    "a node that wakes forgets its children": Mistake(
        "zookeeper/persistence/restore.py",
        "        names = self._names.pop(path, [])\n",
        "        names = self._names.pop(path, [])[:0]\n",
        "zookeeper/persistence/test_restore.py::test_a_fuzzy_snapshot_and_the_log_behind_it",
    ),
    "of a partition that stands twice in a topic the first counts": Mistake(
        "kafka/zookeeper_mode/layout_import.py",
        "    last[:-1] = (np.diff(topic[order]) != 0) | (np.diff(partition[order]) != 0)\n",
        "    last[1:] = (np.diff(topic[order]) != 0) | (np.diff(partition[order]) != 0)\n",
        "kafka/test_znode_columns.py::test_topics_as_columns_equal_the_decoded_topics",
    ),
    "a set of a child's data counts in the parent's cversion": Mistake(
        "zookeeper/tree.py",
        "        node.data = data\n        node.version = version\n",
        "        node.data = data\n        node.version = version\n"
        '        self._nodes[path.rpartition("/")[0]].cversion += 1\n',
        _RULES + "test_a_set_of_a_childs_data_leaves_the_parents_stat",
    ),
    "a deletion leaves the parent's pzxid": Mistake(
        "zookeeper/tree.py",
        "        if zxid > parent.pzxid:\n            parent.pzxid = zxid\n",
        "",
        _STORE + "test_2_cversion_and_pzxid_count_births_and_deaths",
    ),
    "setACL bumps version": Mistake(
        "zookeeper/tree.py",
        "        node.aversion = record.version\n",
        "        node.aversion = record.version\n        node.version += 1\n",
        _STORE + "test_4_set_acl_moves_aversion_only",
    ),
    "null data is stored as empty data": Mistake(
        "zookeeper/tree.py",
        "        node.data = data\n        node.version = version\n",
        '        node.data = data or b""\n        node.version = version\n',
        _STORE + "test_3_null_and_empty_data_differ",
    ),
    "closing a session forgets one ephemeral": Mistake(
        "zookeeper/tree.py",
        "        changes = [change for path in record.paths for change in self._delete_ephemeral(path, transaction)]\n",
        "        self.ephemerals.get(transaction.session_id, set()).discard(record.paths[0] if record.paths else '')\n"
        "        changes = [one for path in record.paths[1:] for one in self._delete_ephemeral(path, transaction)]\n",
        _STORE + "test_54_a_session_ends_in_one_transaction",
    ),
    "children in sorted order": Mistake(
        "zookeeper/znode.py",
        "return [] if self.children is None else list(self.children.ordered())",
        "return [] if self.children is None else sorted(self.children.ordered())",
        _STORE + "test_61_colliding_names_list_as_they_came",
    ),
    "the sequence number is the number of children": Mistake(
        "zookeeper/prepare.py",
        'path += f"{count:010d}"',
        'path += f"{parent.child_count:010d}"',
        _STORE + "test_9_10_sequence_numbers_count_creations",
    ),
    "ephemerals may have children": Mistake(
        "zookeeper/prepare.py",
        "    if parent.ephemeral_owner and is_session(parent.ephemeral_owner):\n"
        "        raise RefusedError(Code.NO_CHILDREN_FOR_EPHEMERALS)\n",
        "",
        _STORE + "test_37_precedence_of_errors",
    ),
    "a node with children is deleted": Mistake(
        "zookeeper/prepare.py",
        "    if node.child_count:\n        raise RefusedError(Code.NOT_EMPTY)\n    return _new(txns.DeleteTxn",
        "    return _new(txns.DeleteTxn",
        _STORE + "test_37_precedence_of_errors",
    ),
    "a conditional set does not look at the version": Mistake(
        "zookeeper/prepare.py",
        "    if expected not in (-1, current):\n        raise RefusedError(Code.BAD_VERSION)\n",
        "",
        _RULES + "test_a_conditional_change_needs_the_version_that_is_there",
    ),
    "a multi that failed is not rolled back": Mistake(
        "zookeeper/tree.py",
        "        if record.failed:\n            return Applied(None, ())\n"
        "        applied = [_APPLY[step.__class__](self, transaction, step) for step in record.records]\n",
        "        applied = [_APPLY[step.__class__](self, transaction, step) for step in record.records]\n"
        "        if record.failed:\n            return Applied(None, ())\n",
        _STORE + "test_7_a_failed_multi_tells_each_operation",
    ),
    "operations of a multi do not see each other": Mistake(
        "zookeeper/prepare.py",
        "        if path in self._pending:\n            return self._pending[path]\n",
        "",
        _STORE + "test_11_12_operations_of_a_multi_see_each_other",
    ),
    "a watch event comes after the reply": Mistake(
        "zookeeper/server.py",
        "            output.append((connection, connection.outgoing))\n",
        "            replies_first = sorted(connection.outgoing, key=lambda said: not isinstance(said, Reply))\n"
        "            output.append((connection, replies_first))\n",
        _STORE + "test_32_an_event_comes_before_the_reply_that_caused_it",
    ),
    "getData leaves a watch on what is missing": Mistake(
        "zookeeper/reads.py",
        "        path, watch = request\n        node = self._readable(connection, path, _TO_GET_DATA)\n",
        "        path, watch = request\n        if watch:\n"
        "            self.watches.data.add(path, connection, Mode.STANDARD)\n"
        "        node = self._readable(connection, path, _TO_GET_DATA)\n",
        _STORE + "test_55_only_exists_watches_what_is_missing",
    ),
    "exists leaves no watch on what is missing": Mistake(
        "zookeeper/reads.py",
        "        if watch:\n            self.watches.data.add(path, connection, Mode.STANDARD)\n"
        "        if node is None:\n            raise RefusedError(Code.NO_NODE)\n",
        "        if node is None:\n            raise RefusedError(Code.NO_NODE)\n        if watch:\n"
        "            self.watches.data.add(path, connection, Mode.STANDARD)\n",
        _STORE + "test_28_exists_watches_what_is_missing",
    ),
    "a standard watch fires again and again": Mistake(
        "zookeeper/watches.py",
        "            if modes & _STANDARD:\n                self._set(path, watcher, modes, modes & ~_STANDARD)\n",
        "",
        _RULES + "test_a_standard_watch_is_used_up_by_its_event",
    ),
    "a deletion is told twice to who watches data and children": Mistake(
        "zookeeper/watches.py",
        "for watcher in gone if watcher not in notified)",
        "for watcher in gone)",
        _STORE + "test_29_one_event_for_a_change",
    ),
    "sessions expire on the millisecond, not on a tick": Mistake(
        "zookeeper/sessions.py",
        "return ((now_ms - self._origin_ms + timeout_ms) // self._tick_ms + 1) * self._tick_ms + self._origin_ms",
        "return now_ms + timeout_ms",
        _STORE + "test_27_expiry_is_on_a_tick_after_the_timeout",
    ),
    "any password takes up a session": Mistake(
        "zookeeper/server.py",
        "if session is None or password != password_of(session_id):",
        "if session is None:",
        _STORE + "test_24_a_wrong_password_costs_the_good_connection",
    ),
    "a client whose session is gone gets a new one silently": Mistake(
        "zookeeper/server.py",
        "        session_id = request.session_id\n        if session_id == 0:\n",
        "        session_id = request.session_id\n        if session_id not in self.sessions:\n",
        _STORE + "test_25_26_a_closed_session_is_gone_after_its_own_events",
    ),
    "a failed write takes no zxid": Mistake(
        "zookeeper/server.py",
        "                error = refused.code\n"
        "                record = txns.ErrorTxn(error)\n            body = self.apply(",
        "                self._send(connection, Reply(xid, self.zxid, refused.code, None))\n"
        "                return\n            body = self.apply(",
        _STORE + "test_5_6_which_requests_take_a_zxid",
    ),
    "a ping is answered with its own xid": Mistake(
        "zookeeper/server.py",
        "self._send(connection, Reply(PING_XID, self.zxid, 0, None))",
        "self._send(connection, Reply(xid, self.zxid, 0, None))",
        _STORE + "test_20_21_xids_and_zxids_of_ping_and_auth",
    ),
    # The wire
    "the rest of a frame is lost between two reads": Mistake(
        "wire/frames.py",
        "        self.pending = buffer[at:]\n",
        '        self.pending = b""\n',
        _WIRE + "test_a_session_split_at_every_byte_reads_alike",
    ),
    "a text is read beyond the end of its frame": Mistake(
        "zookeeper/jute.py",
        '"if length < 0 or end > size: return read_any(data, begin)",\n        "{value} = data[at + 4 : end].decode()"',
        '"if length < 0: return read_any(data, begin)",\n        "{value} = data[at + 4 : end].decode()"',
        _WIRE + "test_a_body_cut_short_is_answered_and_never_escapes",
    ),
    "a length is believed, whatever it is": Mistake(
        "wire/frames.py",
        "if not 0 <= length <= self._max_bytes:",
        "if length < 0:",
        _WIRE + "test_a_bad_length_is_reported_before_the_body_arrives",
    ),
    "an old client gets a byte that it does not know": Mistake(
        "zookeeper/releases.py",
        "return None if requested is None and not self.always_sends_read_only else is_read_only",
        "return is_read_only",
        _STORE + "test_14_an_old_client_gets_no_read_only_byte",
    ),
    # Kafka's messages
    "a length is not compared with the bytes that are left": Mistake(
        "kafka/protocol/decoding.py",
        'f"if {count} < 0 or {end} > size:"',
        'f"if {count} < 0:"',
        _MESSAGES + "test_codec.py::test_bytes_that_are_no_message",
    ),
    "the response header of ApiVersions is flexible": Mistake(
        "kafka/protocol/codec.py",
        "    return int(version in schema.flexible and schema.api_key != API_VERSIONS)\n",
        "    return int(version in schema.flexible)\n",
        _MESSAGES + "test_codec.py::test_api_versions_is_answered_with_the_oldest_header",
    ),
    "the first request header has a client id": Mistake(
        "kafka/protocol/codec.py",
        "    if schema.api_key == CONTROLLED_SHUTDOWN and version == 0:\n        return 0\n",
        "",
        _MESSAGES + "test_codec.py::test_the_version_of_a_request_decides_its_header",
    ),
    "unknown tags are written after the known ones": Mistake(
        "kafka/protocol/encoding.py",
        "        tags = sorted([*tags, *unknown.items()])\n",
        "        tags = [*tags, *unknown.items()]\n",
        _MESSAGES + "test_codec.py::test_unknown_tags_survive",
    ),
    "a value is dropped with the field that the version lacks": Mistake(
        "kafka/protocol/encoding.py",
        "            if self.version not in field.versions and not field.ignorable:\n",
        "            if False:\n",
        _MESSAGES + "test_codec.py::test_values_that_do_not_fit",
    ),
    "a varint may have six bytes": Mistake(
        "kafka/protocol/decoding.py",
        "_VARINT_BITS = 28\n",
        "_VARINT_BITS = 35\n",
        _MESSAGES + "test_codec.py::test_bytes_that_are_no_message",
    ),
    "a tagged struct is written though it has its defaults": Mistake(
        "kafka/protocol/encoding.py",
        '            with self.source.block(f"if {self.differs(field, value)}:", inner):\n',
        '            with self.source.block("if True:", inner):\n',
        _MESSAGES + "test_interpreter.py::test_messages_encode_to_the_bytes_of_the_interpreter",
    ),
    "rows are sliced as if all had the size of the first": Mistake(
        "kafka/protocol/columns.py",
        "        sizes[short] -= (width - lengths) * item\n",
        "",
        _MESSAGES + "test_columns.py::test_metadata_from_columns_is_metadata_from_objects",
    ),
    "a column is cut to the width of its last row": Mistake(
        "kafka/protocol/columns.py",
        "        width = int(lengths.max())\n",
        "        width = int(lengths[-1])\n",
        _MESSAGES + "test_columns.py::test_metadata_from_columns_is_metadata_from_objects",
    ),
    # HTTP
    "a page of another site may post": Mistake(
        "serve/admin_server/access.py",
        "        if foreign:\n",
        "        if False:\n",
        _ACCESS + "test_a_foreign_page_may_not_post",
    ),
    "any name that resolves to this machine may post": Mistake(
        "serve/admin_server/access.py",
        "        if not self._is_own(host, request.local_address):\n",
        "        if not host:\n",
        _ACCESS + "test_a_foreign_page_may_not_post",
    ),
    "whatever begins like the token is the token": Mistake(
        "serve/admin_server/access.py",
        "hmac.compare_digest(sent.strip().encode(), self._token.encode())",
        "sent.startswith(self._token)",
        _ACCESS + "test_a_wrong_token_is_refused",
    ),
    "a connected client's session ends when time passes at once": Mistake(
        "serve/wire_driver.py",
        "            link.connection.attended = True\n",
        "            link.connection.attended = False\n",
        "serve/test_live.py::test_time_passes_and_only_sessions_without_a_client_end",
    ),
    # The sockets
    "who does not read its replies is read on": Mistake(
        "serve/tcp/server.py",
        "not (self._clogged or self._flushing or link.paused)",
        "not (self._flushing or link.paused)",
        _TCP + "test_a_client_that_does_not_read_is_not_read_either",
    ),
    # The simulation
    "events of equal time run in the order of their scheduling": Mistake(
        "simulation/scheduler.py",
        "(component.order_of(number), component.name, number, timer)",
        "(len(self._present), component.name, number, timer)",
        _SCHEDULER + "test_the_seed_decides_the_order_of_equal_times",
    ),
    "all components share one stream": Mistake(
        "simulation/scheduler.py",
        "        stream = self._streams.get(name)\n",
        '        name = "shared"\n        stream = self._streams.get(name)\n',
        _STREAMS + "test_what_one_stream_draws_changes_nothing_for_another",
    ),
    "the name does not enter a stream's seed": Mistake(
        "simulation/streams.py",
        'random.Random(keyed_hash(seed, f"stream/{name}"))',
        'random.Random(keyed_hash(seed, "stream"))',
        _STREAMS + "test_draws_are_pinned",
    ),
    # The partition rules
    "a leader from outside the ISR, without leave": Mistake(
        "partitions/transitions.py",
        "leader = first(replicas, alive & contained(replicas, isr))",
        "leader = first(replicas, alive)",
        _ELECTIONS + "test_offline",
    ),
    "the preferred replica leads though it is not in the ISR": Mistake(
        "partitions/transitions.py",
        "live_members(head, live, on_offline_dirs) & contained(head, isr) & needed",
        "live_members(head, live, on_offline_dirs) & needed",
        _ELECTIONS + "test_preferred",
    ),
    "a plan that waits for nobody raises no leader epoch": Mistake(
        "partitions/transitions.py",
        "chosen=chosen & stays)",
        "chosen=chosen & ~stays)",
        _PLANS + "test_real_clusters_reassigned_as_predicted",
    ),
    "what has no leader is copied all the same": Mistake(
        "partitions/plans/what_if.py",
        "(source != NONE) & brokers.live[source] & brokers.live[to]",
        "(source != NONE) & brokers.live[to]",
        _WHAT_IF_PLAN + "test_partition_without_leader_is_not_copied",
    ),
    "the last member leaves the ISR": Mistake(
        "partitions/transitions.py",
        "            kept_last = last\n",
        "            kept_last = np.zeros_like(last)\n",
        _ELECTIONS + "test_removal_of_the_last_isr_member",
    ),
    "an election leaves the leader epoch": Mistake(
        "partitions/transitions.py",
        "leader_epoch=states.leader_epoch + writes,",
        "leader_epoch=states.leader_epoch,",
        _TRACES + "test_one_partition_through_all_failures",
    ),
    # Brokers and controller
    "a controller writes without the check of its epoch": Mistake(
        "kafka/zookeeper_mode/columnar/batches.py",
        "req.Check(paths.CONTROLLER_EPOCH, self._epoch_version)",
        "req.Check(paths.CONTROLLER_EPOCH, -1)",
        _FAILURES + "test_writes_of_a_zombie_controller_fail_on_the_epoch_check",
    ),
    "a new controller takes the old epoch": Mistake(
        "kafka/zookeeper_mode/client/zk_client.py",
        "controller_schema.encode_epoch(next_int(epoch)), version)",
        "controller_schema.encode_epoch(epoch), version)",
        _FAILURES + "test_the_controller_dies_and_another_takes_over_with_the_next_epoch",
    ),
    "control requests of a controller that was replaced are accepted": Mistake(
        "kafka/broker/replica_manager.py",
        '        codes[controller_epoch < self._controller_epoch.take(brokers, mode="clip")] = '
        "ErrorCode.STALE_CONTROLLER_EPOCH\n",
        "",
        "kafka/test_fencing.py::test_a_request_of_an_older_controller_is_rejected",
    ),
    "a LeaderAndIsr of the same leader epoch is accepted": Mistake(
        "kafka/broker/replica_manager.py",
        "newer: BoolArray = leader_epoch > accepted\n",
        "newer: BoolArray = leader_epoch >= accepted\n",
        "kafka/test_fencing.py::test_a_state_of_an_older_leader_epoch_changes_nothing",
    ),
    "a StopReplica of an old leader epoch is not fenced": Mistake(
        "kafka/broker/replica_manager.py",
        'fenced: BoolArray = leader_epoch < accepted if allowed != "higher" else leader_epoch <= accepted\n',
        "fenced: BoolArray = leader_epoch < NONE - 1\n",
        "kafka/test_fencing.py::test_a_stopped_replica_keeps_its_leader_epoch",
    ),
    "a replica that a reassignment removed forgets its leader epoch": Mistake(
        "kafka/broker/replica_manager.py",
        "            if leaders.epoch[0, place] != NONE:\n",
        "            if False:\n",
        "kafka/test_fencing.py::test_other_replicas_keep_their_leader_epoch_in_a_reassignment",
    ),
    "an ISR proposal is dropped after an unexpected error": Mistake(
        "kafka/broker/isr_changes.py",
        "    outcomes = np.full(len(errors), ProposalOutcome.RETRY, dtype=np.int8)\n",
        "    outcomes = np.full(len(errors), ProposalOutcome.PENDING, dtype=np.int8)\n",
        "kafka/test_fencing.py::test_a_leader_retries_its_proposal_after_every_error_without_a_rule_of_its_own",
    ),
    "a replica that is offline becomes ineligible in every release": Mistake(
        "kafka/zookeeper_mode/controller/states.py",
        "_2_3._replace(replicas=_REPLICAS | {_R.DELETION_INELIGIBLE: frozenset({_R.DELETION_STARTED})})\n",
        "_2_3\n",
        "kafka/test_transitions.py::test_each_transition_of_a_replica[2.2]",
    ),
    "the state of a later controller is overwritten": Mistake(
        "kafka/zookeeper_mode/controller/state_machines.py",
        "        present = (found.version >= 0) & (found.controller_epoch <= context.epoch)\n",
        "        present = found.version >= 0\n",
        "kafka/test_transitions.py::test_the_state_of_a_later_controller_is_not_overwritten[1.1]",
    ),
    "new followers are fetched in the order of the request": Mistake(
        "kafka/broker/fetching.py",
        "partitions = mutable_set_order(partitions, orders.scala, hash_of_start)",
        "pass",
        "kafka/test_fetch_order.py::test_up_to_four_partitions_join_in_the_order_of_a_set_of_first_offsets",
    ),
    "a leader fences fetches in every release": Mistake(
        "kafka/broker/fetching.py",
        "is_fenced = partition in session.fenced\n",
        "is_fenced = True\n",
        "kafka/test_woken_brokers.py::test_a_woken_follower_joins_isrs_before_it_registers_up_to_2_4[2.4-True]",
    ),
    "a follower joins the ISR before the start of the leader's epoch": Mistake(
        "kafka/broker/replica_logs.py",
        "max(leader.high_watermark, leader.epoch_start if waits else 0)",
        "leader.high_watermark",
        "kafka/test_truncation.py::test_a_follower_joins_the_isr_with_the_log_that_the_leader_began_with[3.9-20]",
    ),
    "a follower keeps records that its leader does not have": Mistake(
        "kafka/broker/replica_logs.py",
        "        self._truncate(replica, offset)\n        replica.truncates = replica.truncates and not",
        "        replica.truncates = replica.truncates and not",
        "kafka/test_truncation.py::test_the_log_of_a_former_leader_is_cut_to_that_of_its_successor[2.4]",
    ),
    "a follower does not ask again about a smaller epoch": Mistake(
        "kafka/log/truncation.py",
        "return Truncation(min(own.end_offset, log.end), False)",
        "return Truncation(offset, True)",
        "kafka/test_truncation.py::test_fast_failovers_leave_logs_different_or_not[2.7-True]",
    ),
    "a power loss spares the page cache": Mistake(
        "kafka/broker/broker.py",
        "if lost := log.lose_unflushed():",
        "if lost := 0:",
        "kafka/test_truncation.py::test_a_killed_process_loses_nothing_and_a_machine_without_power_what_was_not_written",
    ),
    "an ISR write ends with its session in every release": Mistake(
        "kafka/broker/broker.py",
        "retries_across_sessions=version.client.retries_across_sessions",
        "retries_across_sessions=False",
        "kafka/test_woken_brokers.py::test_a_woken_leader_tries_to_shrink_isrs_up_to_1_0[0.10.2-True]",
    ),
    "zkclient takes a request that ended with its session for answered": Mistake(
        "kafka/zookeeper_mode/client/session.py",
        "_UNANSWERED = (Code.CONNECTION_LOSS, Code.SESSION_EXPIRED)",
        "_UNANSWERED = (Code.CONNECTION_LOSS,)",
        "kafka/test_session.py::test_zkclient_sends_what_waited_in_the_next_session",
    ),
    "a controller of 0.8.2 resigns when it finds another": Mistake(
        "kafka/releases/profile.py",
        "resigns_at_change: bool = since((0, 9))",
        "resigns_at_change: bool = since((0, 8, 1))",
        _BUGS + "[kafka_1096_controller_adopts_an_epoch-0.8.1]",
    ),
    "an ISR member without a replica never lags": Mistake(
        "kafka/broker/replica_logs.py",
        "if progress is None or self._is_lagging(one, progress, replica, early_us)",
        "if progress is not None and self._is_lagging(one, progress, replica, early_us)",
        _BUGS + "[kafka_9672_isr_beyond_the_assignment-3.9]",
    ),
    "a coordinator forgets what it could not unload": Mistake(
        "kafka/coordinator/transaction_coordinator.py",
        "                self._kept.setdefault(number, shard.epoch)\n",
        "                pass\n",
        "kafka/coordinator/test_transaction_coordinator.py::"
        "test_who_cannot_read_the_number_of_partitions_loads_for_ever_when_it_leads_again"
        "[2.3-True-14]",
    ),
    "a resigned controller of 0.10.1 handles nothing more": Mistake(
        "kafka/releases/profile.py",
        "acts_after_resignation: bool = before((0, 10, 2))",
        "acts_after_resignation: bool = before((0, 10, 1))",
        _BUGS + "[kafka_4447_requests_handled_after_the_resignation-0.10.1]",
    ),
    "a former controller raises leader epochs": Mistake(
        "kafka/zookeeper_mode/controller/controller.py",
        "                last_term.epoch = last_term.epoch_version = 0\n",
        "                pass\n",
        "kafka/test_recorded_former_controllers.py::test_a_former_controller_that_handles_all_writes_no_state",
    ),
    "a request that a former controller cannot send is forgotten": Mistake(
        "kafka/zookeeper_mode/controller/former_controller.py",
        "            self._channels.has_unsent = True\n",
        "            pass\n",
        "kafka/test_recorded_former_controllers.py::test_a_former_controller_handles_requests_as_a_real_one[0.8.1.1]",
    ),
    "a client reads on that was silent for too long": Mistake(
        "kafka/zookeeper_mode/client/session.py",
        "if self.connected and now_us - self._last_heard_us >= self._silence_us:",
        "if not self.connected and now_us - self._last_heard_us >= self._silence_us:",
        "kafka/test_session.py::test_what_arrived_is_lost_on_a_client_that_was_silent_for_too_long[4.0-False]",
    ),
    "every event that fails at a removed topic leaves a request": Mistake(
        "kafka/zookeeper_mode/controller/cluster_changes.py",
        "channels.has_unsent = ordered[0] not in orphaned",
        "channels.has_unsent = True",
        "kafka/test_recorded_former_controllers.py::test_a_controller_fails_at_a_removed_topic_as_a_real_one[0.8.0-1]",
    ),
    "what a former controller wrote is forgotten": Mistake(
        "kafka/observation/invariants.py",
        "            self.znodes.written_by_former[partition] = state.leader_epoch\n",
        "            pass\n",
        "kafka/test_invariants.py::test_the_next_election_ends_what_a_former_controller_wrote",
    ),
    "a broker that cannot start lets its session expire": Mistake(
        "kafka/broker/broker.py",
        "            await self._exit()\n",
        "            self._end_process()\n",
        "kafka/test_failures.py::test_a_broker_that_cannot_start_closes_its_session[2.4]",
    ),
    "a lost connection is opened again within a second": Mistake(
        "kafka/zookeeper_mode/client/session.py",
        "pause_ms = SAME_SERVER_PAUSE_MS * waits + self._pauses.below(RANDOM_PAUSE_MAX_MS)",
        "pause_ms = self._pauses.below(RANDOM_PAUSE_MAX_MS)",
        "kafka/test_session.py::test_a_lost_connection_is_opened_again_after_one_to_two_seconds",
    ),
    "a broker that stops begins to follow": Mistake(
        "kafka/broker/fetching.py",
        "follows = leader not in (-1, own_id) and not self._is_shutting_down()",
        "follows = leader not in (-1, own_id)",
        _STORIES + "[first-0.8.0-i-sigterm-controller-broker3]",
    ),
    "followers are fetched in the order in which they were told of": Mistake(
        "kafka/broker/fetching.py",
        "ordered = self._changed if len(self._changed) < 2 else order_fetched(list(self.following), self._orders)",
        "ordered = self._changed",
        _STORIES + "[first-2.4.1-j-restart-broker2]",
    ),
    "a leader holds back a throttled follower in sync": Mistake(
        "kafka/broker/fetching.py",
        "return not is_in_sync and quota.is_exceeded",
        "return quota.is_exceeded",
        "kafka/test_replication_quotas.py::test_replicas_in_sync_go_on",
    ),
    "a follower fetches throttled partitions at any rate": Mistake(
        "kafka/broker/fetching.py",
        "        if quota.is_exceeded(now_us):\n",
        "        if not quota.has_topics:\n",
        "kafka/test_replication_quotas.py::test_a_log_is_copied_at_the_rate[2.4-follower]",
    ),
    "a response without records counts nothing": Mistake(
        "kafka/broker/fetching.py",
        "        size_bytes = EMPTY_RESPONSE_BYTES\n",
        "        size_bytes = 0\n",
        "kafka/test_replication_quotas.py::test_one_byte_a_second_holds_a_reassignment_until_the_throttle_is_removed[3.9]",
    ),
    "topics that wait for their deletion go on together in every release": Mistake(
        "kafka/zookeeper_mode/controller/topic_deletion.py",
        "together = self._client.version.controller.batches_deletions",
        "together = True",
        _STORIES + "[administration-2.4.1-m5-restart-broker2]",
    ),
    "a reassignment in both znodes is taken up twice": Mistake(
        "kafka/zookeeper_mode/controller/reassignment.py",
        "        await self.resume(lambda _target: True, but=started)\n",
        "        await self.resume(lambda _target: True, but=started and ())\n",
        "kafka/test_reference_controller.py::test_the_reference_agrees[2.4]",
    ),
    "a replica in a log directory that failed can lead": Mistake(
        "kafka/zookeeper_mode/controller/context.py",
        "        return self.is_live(broker) and partition not in self.on_failed_dirs.get(broker, {})\n",
        "        return self.is_live(broker)\n",
        "kafka/test_log_dirs.py::test_real_brokers_wrote_the_same[3.9.1]",
    ),
    "a fetch leaves out the batch that does not fit": Mistake(
        "kafka/log/log.py",
        "                if is_cut and found and size_bytes >= max_bytes:\n",
        "                if is_cut and found and size_bytes + batch.size_bytes > max_bytes:\n",
        _GROUPS + "test_stored_records.py::test_a_fetch_is_filled_up_to_its_limit",
    ),
    "records are stored in the compression of their producer": Mistake(
        "kafka/client_requests/records/produce.py",
        "        target = source if config.codec is None else config.codec\n",
        "        target = source\n",
        _GROUPS + "test_stored_records.py::test_a_recompressed_batch_keeps_its_producer",
    ),
    "a move between log directories ignores its limit": Mistake(
        "kafka/broker/log_dir_moves.py",
        'parse_long(self._rate() or "")',
        'parse_long("")',
        _GROUPS + "test_log_dir_moves.py::test_a_throttled_move_copies_a_part_whenever_its_rate_allows",
    ),
    "a leader serves consumers beyond the high watermark": Mistake(
        "kafka/client_requests/records/fetch.py",
        "log.last_stable_offset if is_committed else log.high_watermark\n",
        "log.last_stable_offset if is_committed else log.end\n",
        _GROUPS + "test_noted_reads.py::test_a_consumer_is_promised_what_it_reads",
    ),
    # Transactions
    "a producer may name the epoch before the last one": Mistake(
        "kafka/coordinator/transaction.py",
        "        elif expected_epoch == stored.last_epoch:",
        "        elif expected_epoch <= stored.epoch:",
        "kafka/coordinator/test_transaction_coordinator.py::"
        "test_a_producer_goes_on_with_the_next_epoch_and_may_repeat_its_request",
    ),
    "a fenced producer may commit": Mistake(
        "kafka/coordinator/transaction_coordinator.py",
        "producer.epoch >= epoch if self.rules.accepts_later_epochs else producer.epoch == epoch",
        "producer.epoch >= epoch if self.rules.accepts_later_epochs else producer.epoch <= epoch",
        "kafka/coordinator/test_transaction_coordinator.py::"
        "test_a_new_producer_fences_the_older_one_and_aborts_its_transaction",
    ),
    "the next coordinator leaves a decided transaction as it is": Mistake(
        "kafka/coordinator/transaction_coordinator.py",
        "            if transaction.state in PREPARED:\n                self._send_markers(shard, transaction)\n",
        "            if transaction.state not in PREPARED:\n                continue\n",
        "kafka/coordinator/test_transaction_coordinator.py::test_the_next_coordinator_completes_a_decided_transaction",
    ),
    # Consumer groups
    "a member of a later generation is accepted": Mistake(
        "kafka/coordinator/group.py",
        "        if error == ErrorCode.NONE and generation != self.generation:\n",
        "        if error == ErrorCode.NONE and generation < self.generation:\n",
        _GROUPS + "test_recorded_groups.py::test_answers_are_those_of_real_brokers[3.9.1]",
    ),
    "a static member is not fenced by its next process": Mistake(
        "kafka/coordinator/group.py",
        "            return ErrorCode.NONE if current == member_id else ErrorCode.FENCED_INSTANCE_ID\n",
        "            return ErrorCode.NONE\n",
        _GROUPS + "test_recorded_groups.py::test_answers_are_those_of_real_brokers[3.9.1]",
    ),
    "a member waits for an assignment of a generation that is over": Mistake(
        "kafka/coordinator/group.py",
        "            self._fail_sync(ErrorCode.REBALANCE_IN_PROGRESS)\n",
        "            pass\n",
        "kafka/coordinator/test_group.py::test_a_member_that_waits_for_its_assignment_hears_of_a_new_rebalance",
    ),
    "a removed offset comes back when its log is read": Mistake(
        "kafka/coordinator/group_coordinator.py",
        "            of_group.pop(key.partition, None)\n",
        "",
        _GROUPS + "test_groups.py::test_a_removed_offset_stays_removed_at_the_next_coordinator",
    ),
    # Pages
    "table cells are not escaped": Mistake(
        "report/table.py",
        '    return f"<td>{escape(str(value))}</td>"\n',
        '    return f"<td>{value}</td>"\n',
        "report/test_layout_page.py::test_names_are_text",
    ),
    # Topics in columns
    "a state in other words is taken for the same": Mistake(
        "kafka/zookeeper_mode/columnar/partition_columns.py",
        "            if encode(state) == node.data:\n",
        "            if partition_state.decode(path, encode(state), node.version) == state:\n",
        _COLUMNS + "test_backing.py::test_a_text_that_only_means_the_same_is_kept_as_it_is",
    ),
    "a partition in columns forgets when its state came": Mistake(
        "kafka/zookeeper_mode/columnar/partition_columns.py",
        "            node.pzxid = numbers[STATE_CZXID]\n",
        "",
        _COLUMNS + "test_layouts.py::test_a_layout_is_loaded_as_if_made_by_requests",
    ),
    "a cluster forgets what its layout was reassigning": Mistake(
        "kafka/zookeeper_mode/columnar/layouts.py",
        "        topics.table.assign(rows[moving], Assignment(*lists))\n",
        "        del lists\n",
        _COLUMNS + "test_layouts.py::test_the_text_of_a_topic_says_what_the_layout_says",
    ),
    "children held as numbers never outgrow their table": Mistake(
        "jvm/hash_map.py",
        "        if len(self) * 4 > self._capacity * 3:\n            self._capacity *= 2\n",
        "",
        "jvm/test_numbered_names.py::test_any_history_gives_the_same_names",
    ),
    "a batch tells no watcher": Mistake(
        "kafka/zookeeper_mode/columnar/batches.py",
        "        return singly | np.isin(rows, watched) if watched else singly\n",
        "        return singly\n",
        _COLUMNS + "test_batches.py::test_a_batch_does_what_its_requests_do",
    ),
    "ISR changes are written in the order of the request": Mistake(
        "kafka/zookeeper_mode/controller/leadership_changes.py",
        "        accepted = accepted[context.order.positions_in_map(rows[accepted], in_order=in_order)]\n",
        "",
        _STORIES + "[first-3.9.1-j-restart-broker3]",
    ),
    "what stood before is asked of columns that show what stands since": Mistake(
        "kafka/zookeeper_mode/columnar/partition_columns.py",
        "            self.before_change(row)\n        state, codec = found\n",
        "            pass\n        state, codec = found\n",
        _COLUMNS + "test_odd_requests.py::test_nobody_can_tell[a state that is gone and comes again]",
    ),
    "the brokers' table misses a change of the assignment": Mistake(
        "kafka/broker/replica_manager.py",
        "        if self._agreed == (updates.source, self.table.assignments):\n",
        "        if self._agreed is not None:\n",
        "kafka/test_imported_cluster.py::test_an_imported_cluster_fails_and_is_repaired_as_the_real_one_was[3.4.1]",
    ),
    "a batch's writes share one zxid": Mistake(
        "kafka/zookeeper_mode/columnar/batches.py",
        "        zxids = server.zxid + 1 + np.arange(len(rows), dtype=np.int64)\n",
        "        zxids = np.full(len(rows), server.zxid + 1, dtype=np.int64)\n",
        _COLUMNS + "test_batches.py::test_a_broker_fails_the_same_by_batch_and_one_by_one",
    ),
    "a batch's writes get zxids in the order of rows": Mistake(
        "kafka/zookeeper_mode/columnar/batches.py",
        "        zxids = server.zxid + 1 + np.arange(len(rows), dtype=np.int64)\n",
        "        zxids = server.zxid + 1 + np.argsort(np.argsort(rows))\n",
        _COLUMNS + "test_batches.py::test_a_broker_fails_the_same_by_batch_and_one_by_one",
    ),
    "a crowded bucket is listed by arrival": Mistake(
        "jvm/hash_map.py",
        "            self.names.insert(0, self._root.name)\n",
        "            self.names.append(self._root.name)\n",
        "jvm/test_hash_map.py::test_crowded_buckets_are_listed_as_by_the_jdk",
    ),
    "a restored server keeps its watches": Mistake(
        "zookeeper/server.py",
        "            self.watches.forget(connection)\n            connection.session =",
        "            connection.session =",
        "serve/test_restore.py::test_the_tree_and_its_sessions_are_those_of_the_snapshot",
    ),
    "a purge takes the log that a kept snapshot needs": Mistake(
        "serve/storage/directory_reader.py",
        "if log.zxid < min(first_log, oldest)",
        "if log.zxid < oldest",
        "serve/test_storage.py::test_what_a_purge_leaves_can_be_booted_from",
    ),
    "an empty summary tells 0 for a quantile": Mistake(
        "wire/monitoring.py",
        'if summary.count else float("nan")',
        "if summary.count else 0.0",
        "serve/test_metrics.py::test_numbers_are_the_servers",
    ),
    # Waiting for clients
    "an event on its way over TCP is not waited for": Mistake(
        "serve/client_activity.py",
        "        return all_sent and traffic.sent_bytes == self._received_bytes + unread\n",
        "        return all_sent\n",
        "serve/test_client_activity.py::test_an_event_on_its_way_is_waited_for",
    ),
    "a callback that runs is not waited for": Mistake(
        "serve/client_activity.py",
        "            if waits_for is None or not waits_for.is_quiet(connections, client):\n",
        "            if waits_for is not None and not waits_for.is_quiet(connections, client):\n",
        "serve/test_settle.py::test_a_callback_that_does_not_return_is_named",
    ),
    "a server that is reset keeps the ACL of its root": Mistake(
        "serve/verbs.py",
        "            if root.acl != OPEN_ACL:\n",
        "            if root.acl == OPEN_ACL:\n",
        "serve/test_reset.py::test_nothing_of_the_test_before_is_left",
    ),
    # The pipeline
    "a batch of a stream takes its first transaction again": Mistake(
        "pipeline/logs/sources.py",
        "    return stretch.after < zxid <= stretch.until\n",
        "    return stretch.after <= zxid <= stretch.until\n",
        _STREAM + "test_each_transaction_of_a_growing_log_appears_once",
    ),
    "what is damaged behind a cut is nobody's": Mistake(
        "zookeeper/persistence/transaction_log.py",
        "        yield damage.offset, damage\n",
        "        if stop is None or damage.offset < stop:\n            yield damage.offset, damage\n",
        "zookeeper/persistence/test_log_scan.py::test_stretches_tell_each_damage_once",
    ),
    "of equals the last worst set is told": Mistake(
        "pipeline/sweeps/outcomes.py",
        "        more = self.most[things] < values\n",
        "        more = self.most[things] <= values\n",
        _SWEEP + "test_the_tables_equal_brute_force_however_the_sets_are_sliced",
    ),
    "bounds of a sample as wide as one deviation": Mistake(
        "pipeline/sweeps/tables.py",
        "Z = 1.959963984540054\n",
        "Z = 1.0\n",
        _SWEEP + "test_the_bounds_hold_the_truth_as_often_as_they_say",
    ),
    "a broker fails twice, with its rack and beside it": Mistake(
        "partitions/failures/sets.py",
        "            gone = set(in_racks)\n",
        "            gone = set(in_racks[:1])\n",
        "partitions/test_failure_sets.py::test_racks_fail_with_brokers_of_other_racks",
    ),
    "a guest asks for more than was agreed": Mistake(
        "pipeline/logs/live_tree.py",
        "        for lot in _lots(paths, self.in_flight):\n",
        "        for lot in _lots(paths, self.in_flight + 1):\n",
        "pipeline/test_live_tree.py::test_no_more_is_under_way_than_was_agreed_and_pauses_are_made",
    ),
    # ZooKeeper ensembles
    "clients of an ensemble stay with their server": Mistake(
        "kafka/cluster/zookeeper_host.py",
        "        self._at = (self._at + 1) % len(self._hosts)\n",
        "        self._at = max(self._at, 0)\n",
        "kafka/test_zookeeper_ensemble.py::test_sessions_outlive_the_loss_of_every_leader_in_turn[3.9]",
    ),
    # Assignments of consumer groups
    "every member of a group gets the same assignment": Mistake(
        "kafka/coordinator/group.py",
        "                    member.assignment = stored[member.member_id]\n",
        "                    member.assignment = max(stored.values())\n",
        "kafka/coordinator/test_assignments.py::test_each_partition_has_one_owner",
    ),
    # What brokers believe after faults
    "a metadata cache keeps the first state of a partition": Mistake(
        "kafka/metadata/cache.py",
        "                self.partitions[partition] = state\n",
        "                self.partitions.setdefault(partition, state)\n",
        "kafka/test_agreement.py::test_brokers_agree_after_faults",
    ),
    # Deleted topics
    "a broker does not compare the ids of topics": Mistake(
        "kafka/broker/replica_logs.py",
        "            if known is not None and wanted is not None and known != wanted:\n",
        '            if known is not None and wanted is not None and known == wanted == "":\n',
        _DELETED + "test_a_broker_rejects_a_leader_of_another_topic_of_the_same_name",
    ),
    "a topic has the id of the last one of that name": Mistake(
        "kafka/cluster/cluster.py",
        '        return self._topic_ids.pop(topic, None) or self._new_uuid("topic ids")\n',
        '        return self._topic_ids.setdefault(topic, self._new_uuid("topic ids"))\n',
        _DELETED + "test_a_topic_that_is_created_again_has_no_records_and_another_id",
    ),
    # Conditions that only releases with a known bug break
    "a release without KAFKA-7152 removes idle followers": Mistake(
        "kafka/broker/replica_logs.py",
        "            if self.version.broker.keeps_idle_followers_in_sync:\n                return False\n",
        "            if progress.log_end < 0:\n                return False\n",
        _WITHOUT + "[kafka_7152_idle_follower]",
    ),
    "a release without KAFKA-15583 commits below min.insync.replicas": Mistake(
        "kafka/broker/replica_logs.py",
        "        if self.version.broker.high_watermark_needs_min_isr and in_sync < min_isr:\n",
        "        if self.version.broker.high_watermark_needs_min_isr and not in_sync:\n",
        _WITHOUT + "[kafka_15583_watermark_below_min_isr]",
    ),
    "a release without KAFKA-13091 waits for the next fetch": Mistake(
        "kafka/broker/replica_logs.py",
        "            if rules.raises_watermark_after_alter_isr or not rules.uses_alter_isr:\n",
        "            if not rules.uses_alter_isr:\n",
        _WITHOUT + "[kafka_13091_watermark_waits_after_shrink]",
    ),
    "a release without KAFKA-7482 does not tell a leader that stops": Mistake(
        "kafka/zookeeper_mode/controller/state_machines.py",
        "informs = strategy == Strategy.CONTROLLED_SHUTDOWN and self._version.controller.informs_stopping_leaders",
        "informs = False",
        _WITHOUT + "[kafka_7482_leader_that_stops_is_not_told]",
    ),
    "a release without KAFKA-3143 leaves dead brokers in ISRs": Mistake(
        "kafka/zookeeper_mode/controller/state_machines.py",
        "        if self._version.rules.failover_trims_dead:\n",
        "        if not self._version.rules.failover_trims_dead:\n",
        _WITHOUT + "[kafka_3143_dead_at_failover]",
    ),
    "a release without KAFKA-1503 elects in the order of the ISR": Mistake(
        "partitions/transitions.py",
        "    if rules.offline_order is Order.ISR:\n",
        "    if rules.offline_order in (Order.ISR, Order.ASSIGNED):\n",
        _WITHOUT + "[kafka_1503_leaders_pile_up]",
    ),
    "a release without KAFKA-10149 pauses the rebalance": Mistake(
        "kafka/zookeeper_mode/controller/leadership_changes.py",
        "paused = context.being_reassigned and not self._client.version.controller.rebalances_during_reassignment",
        "paused = context.being_reassigned",
        _WITHOUT + "[kafka_10149_rebalance_waits]",
    ),
    # Requests between brokers, sent by a client
    "a client needs no right to act as a broker": Mistake(
        "kafka/client_requests/broker_requests.py",
        '        if not self.broker.allows_on_cluster("ClusterAction", context.principal):\n',
        '        if self.broker.allows_on_cluster("ClusterAction", context.principal) is None:\n',
        "kafka/client_requests/test_admin_requests.py::test_acls_and_what_they_deny[3.9.1]",
    ),
    "a leader epoch that is not newer is no error": Mistake(
        "kafka/client_requests/broker_requests.py",
        "            errors |= dict.fromkeys(response.refused, ErrorCode.STALE_CONTROLLER_EPOCH)\n",
        "            errors |= dict.fromkeys(response.refused, ErrorCode.NONE)\n",
        "kafka/client_requests/test_broker_requests.py::test_a_client_makes_a_broker_leader[3.9]",
    ),
    # Groups, transactions and logs: these neither a test nor the swarm had noticed on 2026-11-28
    "a sync that fails leaves no session timeout": Mistake(
        "kafka/coordinator/group.py",
        "            if self._answer_sync(member, SyncResult(error)):\n"
        "                self._expect_heartbeat(member)\n",
        "            self._answer_sync(member, SyncResult(error))\n",
        _REBALANCES + "test_a_member_whose_sync_fails_has_its_session_timeout_from_then_on",
    ),
    "a fenced process gets the assignment of the next": Mistake(
        "kafka/coordinator/group.py",
        "        self._answer_sync(member, SyncResult(ErrorCode.FENCED_INSTANCE_ID))\n",
        "",
        _REBALANCES + "test_a_static_member_that_waits_for_its_assignment_is_fenced_by_the_next_process",
    ),
    "heartbeats do not count in a rebalance": Mistake(
        "kafka/coordinator/group.py",
        "        self._expect_heartbeat(self._members[member_id])\n        is_preparing",
        "        if self.state != GroupState.PREPARING_REBALANCE:\n"
        "            self._expect_heartbeat(self._members[member_id])\n        is_preparing",
        _REBALANCES + "test_a_member_that_sends_heartbeats_may_join_late[True]",
    ),
    "a fence that failed once is never bumped again": Mistake(
        "kafka/coordinator/transaction.py",
        "        self.has_failed_fence = False\n        return",
        "        return",
        _TRANSACTIONS + "test_a_transition_that_cannot_be_appended_changes_nothing",
    ),
    "only the first of the markers of a lost request is sent again": Mistake(
        "kafka/coordinator/marker_channels.py",
        "            for marker in markers:\n                self._retry(*marker)\n            return\n",
        "            self._retry(*markers[0])\n            return\n",
        _TRANSACTIONS + "test_markers_that_travelled_together_are_all_sent_again",
    ),
    "a follower in a new epoch is not told the high watermark": Mistake(
        "kafka/broker/fetching.py",
        "            if before is None or before.leader_epoch != fetched.leader_epoch:\n",
        "            if before is None:\n",
        "kafka/test_fetch_errors.py::test_a_follower_in_a_new_leader_epoch_is_told_the_high_watermark_again[3.9]",
    ),
    "an aborted record of a transaction from the clean part hides a value": Mistake(
        "kafka/log/compaction.py",
        "    later = [one for one in aborted if one.last_offset >= dirty.start]\n",
        "    later = [one for one in aborted if one.first_offset >= dirty.start]\n",
        "kafka/log/test_compaction.py::test_an_aborted_transaction_that_begins_in_the_clean_part_hides_no_value[3.9]",
    ),
    "an offset that was deleted comes back": Mistake(
        "kafka/coordinator/group_coordinator.py",
        "            if is_stored and is_pending and entry",
        "            if is_stored and entry",
        "kafka/coordinator/test_transactional_offsets.py::"
        "test_an_offset_that_is_deleted_while_it_is_stored_does_not_come_back",
    ),
    "each compaction gives a tombstone a new time": Mistake(
        "kafka/log/compaction.py",
        "        if dated and has_deletes and horizon_ms is None:\n",
        "        if dated and has_deletes:\n",
        "kafka/log/test_compaction.py::test_a_tombstone_keeps_the_time_of_its_first_compaction",
    ),
    "the topmost of nested quotas counts": Mistake(
        "zookeeper/quotas.py",
        "        return armed[-1] if armed else None\n",
        "        return armed[0] if armed else None\n",
        _RULES + "test_of_nested_quotas_the_deepest_counts",
    ),
    "an epoch that the leader does not have is no difference": Mistake(
        "kafka/client_requests/records/fetch.py",
        "            if end.epoch < asked.last_epoch or end.end_offset < offset:\n",
        "            if end.end_offset < offset:\n",
        "kafka/client_requests/test_records.py::"
        "test_a_client_with_an_epoch_that_the_leader_does_not_have_is_told_where_logs_differ",
    ),
}
