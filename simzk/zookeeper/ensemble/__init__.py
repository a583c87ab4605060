"""Ensemble of servers with one history: leader, followers, observers, lag and partitions (§7)."""

from simzk.zookeeper.ensemble.ensemble import Ensemble, Member, Role
from simzk.zookeeper.ensemble.membership import EnsembleConfig

__all__ = ["Ensemble", "EnsembleConfig", "Member", "Role"]
