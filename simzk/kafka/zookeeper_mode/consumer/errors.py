"""Errors that a consumer survives; each is recorded in the history."""

from __future__ import annotations


class ConsumerError(Exception):
    """Base of the errors that a consumer survives."""


class NoNodeError(ConsumerError):
    """A required znode is missing."""


class AssignmentError(ConsumerError):
    """The members that were read are inconsistent, or the assignor rejects them."""


class RegistrationRefusedError(ConsumerError):
    """Another session owns the consumer's id."""


class RebalanceFailedError(ConsumerError):
    """Every attempt of a rebalance failed (Kafka's ConsumerRebalanceFailedException)."""
