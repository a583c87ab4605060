"""Responses that report one error for everything that a request names (AbstractRequest.getErrorResponse of 3.9).

Rules of this module:
  - every error code of the response is the error. A response with a part for each topic, partition, group or resource
    of the request has these parts, in the order of the request; all other lists are empty;
  - a list is that of the same name in the request, or the one in `_LISTS`; `_WITHOUT_PARTS` are the exceptions;
  - a part copies the name or number that identifies it (`_COPIED`); all other fields have their defaults, or `_VALUES`;
  - Kafka's classes list topics and groups of Produce and OffsetFetch in the order of a hash map, which is not imitated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from simzk.kafka.protocol.classes import response_class, struct_classes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from simzk.kafka.protocol.errors import ErrorCode
    from simzk.kafka.protocol.schema import Field, StructSchema
    from simzk.kafka.protocol.structs import Message, Struct

USERS = "users whose credentials change"
"""The list of AlterUserScramCredentials, which is no list of the request: each user stands in it once."""
_CODES: Final = ("error_code", "partition_error_code")
_SAME_NAME: Final = (
    *("entity_name", "entity_type", "feature", "group_id", "index", "key", "name", "partition", "partition_id"),
    *("resource_name", "resource_type", "session_id", "topic", "topic_id", "transactional_id"),
)
_COPIED: Final[Mapping[str, tuple[str, ...]]] = {name: (name,) for name in _SAME_NAME} | {
    "partition_index": ("partition_index", "partition"),
    "topic_name": ("topic_name", "name"),
    "user": ("user", "name"),
}
"""Fields that identify a part, with their names in the request. An item that is no struct is the value of the first."""
_LISTS: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "AddPartitionsToTxn": {
        "results_by_topic_v3_and_below": ("v3_and_below_topics",),
        "results_by_partition": ("partitions",),
    },
    "AlterClientQuotas": {"entity": ("entity",)},
    "AlterConfigs": {"responses": ("resources",)},
    "AlterPartitionReassignments": {"responses": ("topics",)},
    "AlterReplicaLogDirs": {"results": ("dirs.topics",)},
    "AlterUserScramCredentials": {"results": (USERS,)},
    "ConsumerGroupDescribe": {"groups": ("group_ids",)},
    "CreateAcls": {"results": ("creations",)},
    "CreatePartitions": {"results": ("topics",)},
    "DeleteAcls": {"filter_results": ("filters",)},
    "DeleteGroups": {"results": ("groups_names",)},
    "DeleteTopics": {"responses": ("topics", "topic_names")},
    "DescribeConfigs": {"results": ("resources",)},
    "DescribeProducers": {"partitions": ("partition_indexes",)},
    "DescribeTransactions": {"transaction_states": ("transactional_ids",)},
    "DescribeUserScramCredentials": {"results": ("users",)},
    "ElectLeaders": {"replica_election_results": ("topic_partitions",), "partition_result": ("partitions",)},
    "Fetch": {"responses": ("topics",)},
    "FindCoordinator": {"coordinators": ("coordinator_keys",)},
    "IncrementalAlterConfigs": {"responses": ("resources",)},
    "ListPartitionReassignments": {"topics": ("topics",), "partitions": ("partition_indexes",)},
    "OffsetFetch": {"partitions": ("partition_indexes",)},
    "Produce": {"responses": ("topic_data",), "partition_responses": ("partition_data",)},
}
"""Lists of responses with the lists of the request that they are made from."""
_WITHOUT_PARTS: Final[Mapping[str, tuple[str, int]]] = {
    "Fetch": ("responses", 13),
    "LeaveGroup": ("members", 0),
    "OffsetDelete": ("topics", 0),
    "OffsetFetch": ("topics", 2),
}
"""Lists that stay empty from a version on, because the error stands elsewhere in the response."""
_VALUES: Final[Mapping[str, Mapping[str, object]]] = {
    "CreateDelegationToken": {
        "principal_type": "User",
        "principal_name": "ANONYMOUS",
        "token_requester_principal_type": "User",
        "token_requester_principal_name": "ANONYMOUS",
        "issue_timestamp_ms": -1,
        "expiry_timestamp_ms": -1,
        "max_timestamp_ms": -1,
    },
    "DeleteRecords": {"low_watermark": -1},
    "DescribeClientQuotas": {"entries": None},
    "DescribeUserScramCredentials": {"user": ""},
    "Fetch": {"high_watermark": -1, "records": None},
    "FindCoordinator": {"node_id": -1, "port": -1},
    "InitProducerId": {"producer_epoch": -1},
    "JoinGroup": {"protocol_name": None},
    "OffsetFetch": {"committed_offset": -1},
    "Produce": {"base_offset": -1},
}
"""Values of fields that differ from the defaults of the protocol; null where the version of the field allows it."""
_WITH_TEXT: Final = ("AlterClientQuotas", "DescribeConfigs", "FindCoordinator")
"""Responses with the error's own text as message; in others the message is null."""


def error_response(request: Message, version: int, code: ErrorCode, text: str | None = None) -> Message | None:
    """Return the response to a request with one error; None if this version of the response has no error field.

    Args:
        request: the request.
        version: its version.
        code: the error.
        text: the message, for versions that have a field for it; None for what Kafka's classes write.

    >>> from simzk.kafka.protocol.errors import ErrorCode
    >>> from simzk.kafka.protocol.messages import DeleteGroupsRequest
    >>> response = error_response(DeleteGroupsRequest(groups_names=["a", "b"]), 1, ErrorCode.NOT_COORDINATOR)
    >>> [(part.group_id, part.error_code.name) for part in response.results]
    [('a', 'NOT_COORDINATOR'), ('b', 'NOT_COORDINATOR')]
    """
    name, kind = request.MESSAGE.name, response_class(request.MESSAGE.api_key)
    assert request.MESSAGE.kind == "request", f"{name} is no request"
    assert kind is not None, f"{name} has no response"
    if not _has_code(kind.SCHEMA, version):
        return None
    api = name.removesuffix("Request")
    told = code.text if text is None and api in _WITH_TEXT else text
    made = _Builder(api, struct_classes(kind), version, code, told).struct(kind.SCHEMA, request)
    assert isinstance(made, kind)
    return made


class _Builder(NamedTuple):
    """Builder of one response."""

    api: str
    classes: Mapping[str, type[Struct]]
    version: int
    code: ErrorCode
    text: str | None

    def struct(self, schema: StructSchema, source: object) -> Any:
        """Return a struct of the response for a part of the request, which is a struct, a name or a number."""
        fields: dict[str, object] = {}
        values, is_identified = _VALUES.get(self.api, {}), False
        for field in schema.fields:
            name = field.attribute
            if self.version not in field.versions:
                continue
            if name in _CODES:
                fields[name] = self.code
            elif name in values:
                if values[name] is not None or self.version in field.nullable:
                    fields[name] = values[name]
            elif name == "error_message":
                fields[name] = "" if self.text is None and self.version not in field.nullable else self.text
            elif field.is_array and field.struct is not None:
                fields[name] = [self.struct(field.struct, part) for part in self._parts(field, source)]
            elif name in _COPIED and isinstance(source, str | int):
                if not is_identified:
                    fields[name], is_identified = source, True
            elif name in _COPIED:
                found = next((getattr(source, one) for one in _COPIED[name] if hasattr(source, one)), None)
                if found is not None or self.version in field.nullable:
                    fields[name] = found
        return self.classes[schema.name](**fields)

    def _parts(self, field: Field, source: object) -> Sequence[object]:
        """Return the parts of the request that a list of the response is made from."""
        assert field.struct is not None
        name, lists = field.attribute, _LISTS.get(self.api, {})
        empty, empty_from = _WITHOUT_PARTS.get(self.api, ("", 0))
        is_empty = name == empty and self.version >= empty_from
        if is_empty or not (name in lists or _has_code(field.struct, self.version)):
            return ()
        parts: list[object] = []
        for path in lists.get(name, (name,)):
            if path == USERS:
                parts += dict.fromkeys(
                    one.name for part in ("deletions", "upsertions") for one in getattr(source, part)
                )
                continue
            found = [source]
            for step in path.split("."):
                found = [item for owner in found for item in getattr(owner, step, None) or ()]
            parts += found
        return parts


def _has_code(struct: StructSchema, version: int) -> bool:
    """Return whether a struct, or one inside it, has an error code in a version."""
    present = [field for field in struct.fields if version in field.versions]
    return any(field.attribute in _CODES or (field.struct and _has_code(field.struct, version)) for field in present)
