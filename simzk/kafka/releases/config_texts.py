"""Errors of DescribeConfigs, AlterConfigs and IncrementalAlterConfigs, by release (recorded 0.11 to 3.9).

Rules of this module:
  - a text is a format with named fields; recorded releases are 0.11, 1.1, 2.0, 2.4, 2.8, 3.4 and 3.9, so a change
    between two of them is dated to the later line, or where a Kafka issue says so.
"""

from __future__ import annotations

from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.releases.since import Profile, before, by_release, since

MALFORMED = (
    "This most likely occurs because of a request being malformed by the client library or the message was sent to an "
    "incompatible broker. See the broker logs for more details."
)


class ConfigTexts(Profile):
    """Errors about configurations, and rules of the requests."""

    has_broker_configs: bool = since((1, 1))
    """Brokers are configured by clients (KIP-226)."""
    has_loggers: bool = since((2, 4))
    """Log levels are configured by clients (KIP-412)."""
    requires_topic: bool = since((2, 0))
    """DescribeConfigs rejects a topic that the metadata cache lacks; before, it has the default configuration."""
    answers_each_resource: bool = since((2, 8))
    """A resource that DescribeConfigs names twice has two results, not one."""
    no_keys_are_all: bool = since((2, 8))
    """An empty list of keys asks for all keys, not for none."""
    names_defaults: bool = before((2, 8))
    """Version 0 of DescribeConfigs says which values are defaults; later it says that none is."""
    described: str | None = by_release(None, ((2, 8), ""))
    """Text of success in DescribeConfigs."""
    other_broker: str = by_release(
        "Unexpected broker id, expected {broker}, but received {name}",
        ((1, 1), "Unexpected broker id, expected {broker} or empty string, but received {resource}.name"),
        ((2, 4), "Unexpected broker id, expected {broker} or empty string, but received {name}"),
    )
    """DescribeConfigs of another broker."""
    other_altered: str = by_release(
        "Unexpected broker id, expected {broker}, but received {resource}.name",
        ((2, 4), "Unexpected broker id, expected {broker}, but received {name}"),
    )
    """AlterConfigs of another broker."""
    resource: str = by_release(
        "Resource(type={kind}, name='{name}'}}", ((2, 0), "ConfigResource(type={kind}, name='{name}')")
    )
    """A resource in a text."""
    unknown_described: str = by_release("Unexpected resource type UNKNOWN for resource {name}", ((2, 8), MALFORMED))
    unknown_altered: str = by_release("Unexpected resource type UNKNOWN", ((3, 0), "Unknown resource type {number}"))
    keeps_unknown_type: bool = since((2, 8))
    """An unknown resource type is repeated in the answer; before, it is 0."""
    client_metrics_described: str | None = by_release(
        None, ((3, 7), "Config type client-metrics is only supported on KRaft clusters")
    )
    client_metrics_altered: str | None = by_release(
        None, ((3, 7), "AlterConfigs is only supported for topics and brokers, but resource type is CLIENT_METRICS")
    )
    logger_in_alter: str | None = by_release(
        None,
        ((2, 4), "AlterConfigs is deprecated and does not support the resource type BROKER_LOGGER"),
        ((3, 0), None),
    )
    """AlterConfigs of loggers; None: as an unknown type."""
    missing_topic: tuple[ErrorCode, str] = by_release(
        (ErrorCode.UNKNOWN_SERVER_ERROR, 'Topic "{name}" does not exist.'),
        ((2, 8), (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic '{name}' does not exist.")),
    )
    invalid_value: ErrorCode = by_release(ErrorCode.INVALID_REQUEST, ((3, 0), ErrorCode.INVALID_CONFIG))
    """An invalid value of a topic, or of a logger."""
    prefixes_broker_errors: bool = before((3, 0))
    """Texts about brokers and loggers begin with the resource."""
    null_value: str | None = by_release(None, ((3, 0), "Null value not supported for : {key}"))
    """A null value in AlterConfigs; None: an unknown error."""
    closes_at_null_value: bool = since((2, 0), before=(2, 8))
    """AlterConfigs with a null value closes the connection."""
    null_set: str | None = by_release(
        None, ((2, 8), "Null value not supported for : SET:{key}"), ((3, 0), "Null value not supported for : {key}")
    )
    """A null value that IncrementalAlterConfigs sets; None: an unknown error."""
    duplicate_keys: str = by_release(
        "Error due to duplicate config keys : {keys}", ((3, 0), "Error due to duplicate config keys")
    )
    replaces_no_duplicate_keys: bool = since((3, 2))
    """AlterConfigs rejects a key that it names twice, too; before, the last one wins (KAFKA-13552)."""
    fails_on_duplicate_resources: bool = since((2, 8))
    """A resource twice in AlterConfigs: no answer ever comes; before, the last one wins."""
    asks_metadata_cache: bool = since((2, 8))
    """A topic that the metadata cache lacks is unknown before anything else is checked."""
    appends_to_defaults: bool = since((2, 8))
    """IncrementalAlterConfigs appends to a default, and subtracts from it; before, it fails (an exception's text)."""
    topic_denied: ErrorCode = by_release(
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ((1, 0), ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    )
    explains_denials: bool = since((2, 8))
    """DescribeConfigs of a resource that clients may not see has a text."""
    appends_once: bool = since((3, 0))
    """A value that a list has is not appended again."""
    unknown_operation: str | None = by_release("null", ((2, 8), None))
    levels: str = by_release(
        "TRACE, ERROR, INFO, FATAL, DEBUG, WARN", ((3, 9), "DEBUG, ERROR, FATAL, INFO, TRACE, WARN")
    )
    """Log levels in the order of the text."""
