"""What the reply to a multi says of each of its operations (§1.6)."""

from __future__ import annotations

from simzk.zookeeper import requests as req
from simzk.zookeeper import transactions as txns
from simzk.zookeeper.replies import OperationResult


def multi_results(record: txns.Record, bodies: object) -> list[OperationResult] | None:
    """What the reply to a multi says of each operation; None where the request as a whole was refused.

    Args:
        record: of the transaction that the multi became.
        bodies: what applying it returned.
    """
    if isinstance(bodies, list):
        return [OperationResult(0, body) for body in bodies]
    if isinstance(record, txns.MultiTxn):
        # Operations before the one that failed are told 0, though nothing was done (§1.6).
        errors = [step.error if isinstance(step, txns.ErrorTxn) else 0 for step in record.records]
        return [OperationResult(failed, None) for failed in errors]
    return None


def without_stats(request: req.Multi, results: list[OperationResult]) -> list[OperationResult]:
    """The results as they were before a multi told the Stat of a `Create2`."""
    told = []
    for operation, (error, body) in zip(request.operations, results, strict=True):
        is_path = isinstance(operation, req.Create2) and isinstance(body, tuple)
        told.append(OperationResult(error, body[0] if is_path else body))  # type: ignore[index]  # a path and a Stat
    return told
