"""Partition state in `/brokers/topics/T/partitions/P/state`: leader, ISR and epochs (docs/reference/kafka.md §1.6).

The form is the same from 0.8.1 to 3.9, except `leader_recovery_state`: 3.2 and later write it if it is RECOVERING.
"""

from __future__ import annotations

from functools import lru_cache

from simzk.kafka.topic_partition import LeaderAndIsr
from simzk.kafka.zookeeper_mode.schemas.json_text import LENIENT, Reading, read_object, write_spaced

RECOVERED, RECOVERING = 0, 1


def encode(state: LeaderAndIsr) -> bytes:
    """Encode as Kafka 0.8.1 and later does.

    >>> encode(LeaderAndIsr(1, 0, (1, 2), controller_epoch=3)).decode()
    '{"controller_epoch":3,"leader":1,"version":1,"leader_epoch":0,"isr":[1,2]}'
    """
    recovery = f'"leader_recovery_state":{RECOVERING},' if state.recovering else ""
    # Formatted without json.dumps: a controller writes this most often, and numbers need no escapes.
    return (
        f'{{"controller_epoch":{state.controller_epoch},"leader":{state.leader},"version":1,{recovery}'
        f'"leader_epoch":{state.leader_epoch},"isr":[{",".join(map(str, state.isr))}]}}'
    ).encode()


def encode_spaced(state: LeaderAndIsr) -> bytes:
    """Encode as Kafka 0.8.0 does.

    >>> encode_spaced(LeaderAndIsr(1, 0, (1, 2), controller_epoch=3)).decode()
    '{ "controller_epoch":3, "isr":[ 1, 2 ], "leader":1, "leader_epoch":0, "version":1 }'
    """
    fields = {"controller_epoch": state.controller_epoch, "leader": state.leader, "version": 1}
    return write_spaced(fields | {"leader_epoch": state.leader_epoch, "isr": list(state.isr)})


def decode(path: str, data: bytes | None, version: int = 0, reading: Reading = LENIENT) -> LeaderAndIsr:
    """Decode a partition's state; `version` is the znode's dataVersion.

    Raises:
        NoJsonError: the data are not JSON; Kafka treats the state as missing.
        ZnodeError: the data are invalid; names path, field and reason.
    """
    state = _decode(path, data, reading)
    return state._replace(version=version) if version else state


@lru_cache(maxsize=256)  # the controller, the history and each invariant decode the state that was just written
def _decode(path: str, data: bytes | None, reading: Reading) -> LeaderAndIsr:
    fields = read_object(path, data, reading)
    recovery = fields.integer("leader_recovery_state", RECOVERED) if reading.has_recovery_state else RECOVERED
    state = LeaderAndIsr(
        leader=fields.integer("leader"),
        leader_epoch=fields.integer("leader_epoch"),
        isr=fields.integers("isr"),
        controller_epoch=fields.integer("controller_epoch"),
        version=0,
        recovering=recovery == RECOVERING,
    )
    if recovery not in (RECOVERED, RECOVERING):
        raise fields.wrong("leader_recovery_state", f"{RECOVERED} or {RECOVERING}")
    if any(member < 0 for member in state.isr):
        raise fields.wrong("isr", "broker ids")
    return state
