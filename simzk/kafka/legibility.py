"""Whether what somebody wrote into a znode of Kafka's can be read at all, by whatever release.

Rules of the module:
  - a table from path to codec; topics and states are no part of it, for whoever follows them reads them anyway;
  - it says what is wrong when it is written, whoever reads it later, or nobody: what each reader then does is told by
    that reader.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from simzk.errors import ZnodeError
from simzk.kafka.schemas import (
    acl,
    admin,
    broker_registration,
    cluster,
    config,
    controller,
    delegation_token,
    feature,
    log_dir_event,
)
from simzk.kafka.schemas.reading import read_value

if TYPE_CHECKING:
    from collections.abc import Callable

_READERS: Final[tuple[tuple[str, Callable[[str, bytes | None], object]], ...]] = (
    (r"/brokers/ids/[^/]+", broker_registration.decode),
    (r"/controller", controller.decode),
    (r"/controller_epoch", controller.decode_epoch),
    (r"/config/changes/[^/]+", config.decode_change),
    (r"/config/(topics|clients|brokers|ips|users)/[^/]+(/clients/[^/]+)?", config.decode),
    (r"/admin/reassign_partitions", lambda path, data: admin.decode_reassignment(path, data, strict=False)),
    (r"/admin/preferred_replica_election", admin.decode_preferred_election),
    (r"/isr_change_notification/[^/]+", admin.decode_isr_change),
    (r"/log_dir_event_notification/[^/]+", log_dir_event.decode),
    (r"/cluster/id", cluster.decode_cluster_id),
    (r"/feature", feature.decode),
    (r"/latest_producer_id_block", cluster.decode_producer_ids),
    (r"/delegation_token/tokens/[^/]+", delegation_token.decode),
    (r"/kafka-acl/[^/]+/[^/]+|/kafka-acl-extended/prefixed/[^/]+/[^/]+", acl.decode),
)
_ANY: Final = re.compile("|".join(f"({pattern.replace('(', '(?:')})" for pattern, _ in _READERS))
_MADE_EMPTY: Final = re.compile(r"/brokers/ids/[^/]+")
"""A registration is made without data, and filled in the same multi (2.2 and later)."""


def problem_with(path: str, data: bytes | None) -> ZnodeError | None:
    """Why nobody can read what was written; None where somebody can, or where the znode is none of the table.

    >>> str(problem_with("/controller_epoch", b"x"))
    '/controller_epoch: holds "x"; expected a decimal number of 32 bits'
    >>> problem_with("/config/topics/t", b'{"version":1,"config":{}}') is None
    True
    """
    match = _ANY.fullmatch(path)
    if match is None or (data is None and _MADE_EMPTY.fullmatch(path)):
        return None
    assert match.lastindex is not None
    reader = _READERS[match.lastindex - 1][1]
    try:
        reader(path, data)
        if reader is config.decode and data:
            read_value(path, data)  # which a reader takes for an empty one, and an operator does not
    except ZnodeError as problem:
        return problem
    return None
