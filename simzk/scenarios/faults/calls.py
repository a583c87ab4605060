"""Faults of single calls between brokers: refused ISR proposals, and markers of transactions without an answer.

They are drawn beside the other faults, from streams of their own, and only if the scenario has `[faults.clients]`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.protocol.messages import WriteTxnMarkersRequest
from simzk.kafka.releases.versions import kafka_version
from simzk.kafka.requests import IsrChangeRequest, IsrChangeResponse
from simzk.kafka.rpc import CallFault
from simzk.scenarios.faults.fault import LastingBrokerFault

if TYPE_CHECKING:
    from simzk.scenarios.faults.fault import Setting, Target

_WITH_TRANSACTIONS = (0, 11, 0)


def _begin(fault: CallFault, target: Target, duration_us: int) -> None:
    faults = target.cluster.traffic.connections.faults
    faults.append(fault)
    target.call_later(duration_us, lambda: faults.remove(fault))


def refused(request: IsrChangeRequest) -> IsrChangeResponse:
    """Return the response that lets a leader send its proposals again (Partition.handleAlterPartitionError)."""
    return IsrChangeResponse(
        ErrorCode.NONE, {proposal.partition: ErrorCode.UNKNOWN_SERVER_ERROR for proposal in request.proposals}
    )


class RefuseIsr(LastingBrokerFault, kw_only=True, frozen=True):
    """Answer each ISR proposal of a broker with an error after which it sends the proposal again (2.7 and later)."""

    @classmethod
    def is_possible(cls, setting: Setting) -> bool:
        return kafka_version(setting.version).broker.uses_alter_isr

    def begin(self, target: Target) -> None:
        _begin(CallFault(f"broker {self.broker}", IsrChangeRequest, refused), target, self.duration_us)

    def describe(self) -> str:
        return f"refuses the ISR proposals of broker {self.broker}"


class LoseMarkerAnswers(LastingBrokerFault, kw_only=True, frozen=True):
    """Let a broker write the markers of transactions that it is sent, and break the connection before its answer."""

    @classmethod
    def is_possible(cls, setting: Setting) -> bool:
        return kafka_version(setting.version).number >= _WITH_TRANSACTIONS

    def begin(self, target: Target) -> None:
        _begin(CallFault(f"broker {self.broker}", WriteTxnMarkersRequest), target, self.duration_us)

    def describe(self) -> str:
        return f"loses the answers to transaction markers sent to or by broker {self.broker}"


CALL_KINDS: Final = (RefuseIsr, LoseMarkerAnswers)
